package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/authority"
	"briefrail/internal/authority/api"
	"briefrail/internal/frames"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// Tokens of a test: of all firms, of its own, of another.
const (
	forAll   = "token-of-all-firms-0001"
	forFirm  = "token-of-this-firm-0001"
	forOther = "token-of-other-firm-001"
)

// rig is one rail: a database, and the interface on it with the rights of a worker.
type rig struct {
	db      *pgtest.DB
	url     string
	reg     *prometheus.Registry
	log     *lines
	key     rail.Key
	other   rail.UUID // a firm
	mu      sync.Mutex
	tokens  string
	pool    *pgxpool.Pool
	control authority.Controller
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		db: pgtest.New(t), reg: prometheus.NewRegistry(), log: &lines{},
		key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}, other: rail.NewUUID(),
	}
	r.db.GrantRoles(t)
	r.pool = r.db.PoolAs(t, "rail_worker")
	r.control = authority.Controller{DB: r.db.Pool, Actor: authority.Actor{Name: "test", Reason: "test"}}
	r.tokens = "# who, and the token\nall " + forAll + "\n\n" + r.key.Firm.String() + " " + forFirm + "\n" + r.other.String() + " " + forOther + "\n"
	r.serve(t, r.options())
	return r
}

// serve has the rig ask an interface with these options.
func (r *rig) serve(t *testing.T, o api.Options) {
	t.Helper()
	s, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	r.url = srv.URL
}

func (r *rig) options() api.Options {
	return api.Options{
		DB: r.pool, Tokens: r.readTokens, AtOnce: 4, Registerer: r.reg,
		Log: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (r *rig) readTokens() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens, nil
}

func (r *rig) setTokens(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = text
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// asked is an intent's body; what is left empty is left out.
type asked struct {
	ID       string `json:"intent_id,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Expected *int64 `json:"expected_revision,omitempty"`
	Digest   string `json:"payload_digest,omitempty"`
	Epoch    *int64 `json:"epoch,omitempty"`
}

func anIntent() asked {
	return asked{ID: rail.NewUUID().String(), Kind: authority.Regenerate, Digest: strings.Repeat("ab", 32)}
}

// reply is an answer with what a test looks at.
type reply struct {
	status int
	header http.Header
	raw    string
	said   api.Said
	fault  api.Problem
}

func (r *rig) path(of string) string {
	return "/v1/firms/" + r.key.Firm.String() + "/matters/" + r.key.Matter.String() + "/" + of
}

// post submits an intent with a token.
func (r *rig) post(t *testing.T, token string, i asked) reply {
	t.Helper()
	return r.postTo(t, token, r.path("intents"), i)
}

func (r *rig) postTo(t *testing.T, token, path string, i asked) reply {
	t.Helper()
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	return r.do(t, token, http.MethodPost, path, string(text))
}

func (r *rig) get(t *testing.T, token, path string) reply {
	t.Helper()
	return r.do(t, token, http.MethodGet, path, "")
}

func (r *rig) do(t *testing.T, token, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := reply{status: resp.StatusCode, header: resp.Header, raw: string(text)}
	into := any(&a.said)
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		into = &a.fault
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s answers %q: %v", method, path, text, err)
		}
	}
	return a
}

// problem fails the test unless the answer is of that status and type.
func (a reply) problem(t *testing.T, status int, kind string) {
	t.Helper()
	if a.status != status || a.fault.Type != "urn:briefrail:problem:"+kind || a.fault.Status != status || a.fault.Title == "" {
		t.Errorf("got %d %s, want %d %s: %s", a.status, a.fault.Type, status, kind, a.raw)
	}
}

func (r *rig) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := r.db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) number(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	if err := r.db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// executed is how often the intents of the matter took effect: each asks for one
// generation.
func (r *rig) executed(t *testing.T) int64 {
	t.Helper()
	return r.number(t, `SELECT coalesce(sum(requested_generation), 0) FROM ops.matter_frame_jobs WHERE matter_id = $1`, r.key.Matter)
}

// land gives the matter a revision more, as a build would.
func (r *rig) land(t *testing.T) {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), r.pool, r.key, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatalf("claim: %v, %v", got, err)
	}
	frame := []byte(`{"a":1}`)
	checked, err := frames.Check(frame, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := runs.Landing{Claim: got[0].Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: frame, SchemaVersion: "1", BuilderVersion: "1"}}
	if _, err := runs.Land(t.Context(), r.pool, l); err != nil {
		t.Fatal(err)
	}
}

// old registers a writer beside the rail. Its role writes nothing in these tests.
func (r *rig) old(t *testing.T, name, endpoint string) {
	t.Helper()
	role := "rail_readonly"
	w := authority.Writer{Name: name, Kind: "external", Roles: []string{role}, Importer: &role}
	if endpoint != "" {
		w.Endpoint = &endpoint
	}
	if err := r.control.RegisterWriter(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// besideOld is a rail with an old writer beside it, and one of the two in charge.
func besideOld(t *testing.T, writer string) *rig {
	t.Helper()
	r := newRig(t)
	r.old(t, "old-house", "http://old.example")
	r.fence(t, writer)
	return r
}

// fence gives every scope to a writer that has it already.
func (r *rig) fence(t *testing.T, writer string) {
	t.Helper()
	var scopes []string
	for b := range rail.Buckets {
		scopes = append(scopes, scopeOf(t, r, b))
	}
	if _, err := r.control.Configure(t.Context(), scopes, writer); err != nil {
		t.Fatal(err)
	}
}

func scopeOf(t *testing.T, r *rig, bucket int) (scope string) {
	t.Helper()
	if err := r.db.Pool.QueryRow(t.Context(), `SELECT ops.fence_scope($1::smallint)`, bucket).Scan(&scope); err != nil {
		t.Fatal(err)
	}
	return scope
}

func (r *rig) scope(t *testing.T) string { return scopeOf(t, r, rail.Bucket(r.key.Matter)) }

// close begins a crossing to a writer, up to the closing.
func (r *rig) close(t *testing.T, to string) (change rail.UUID) {
	t.Helper()
	change = rail.NewUUID()
	r.exec(t, `SELECT ops.plan_change($1, $2, $3, NULL, '{"deadline_ms": 600000, "grace_ms": 1000}', '{"predicted_pause_ms": 1}', 'test', 'test')`, change, r.scope(t), to)
	r.exec(t, `SELECT ops.shadow_change($1, '{}', 'test', 'test')`, change)
	r.verb(t, r.control.Close, change)
	return change
}

// open is the rest of the crossing, and the end of its window.
func (r *rig) open(t *testing.T, change rail.UUID) {
	t.Helper()
	r.verb(t, r.control.Drain, change)
	r.verb(t, r.control.Seal, change)
	r.exec(t, `SELECT ops.report_change($1, 1, sha256('x'), '[]', '1 ms')`, change)
	r.verb(t, r.control.Advance, change)
	r.verb(t, r.control.Complete, change)
}

func (r *rig) verb(t *testing.T, do func(context.Context, rail.UUID) (authority.Change, error), change rail.UUID) {
	t.Helper()
	if _, err := do(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// cross moves authority over the matter to a writer.
func (r *rig) cross(t *testing.T, to string) (change rail.UUID) {
	t.Helper()
	change = r.close(t, to)
	r.open(t, change)
	return change
}
