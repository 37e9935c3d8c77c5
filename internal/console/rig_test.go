package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/console"
	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

const token = "a token that is long enough"

// rig is a console on a database of its own, and one browser.
type rig struct {
	*pgtest.DB
	t      *testing.T
	srv    *httptest.Server
	client *http.Client
}

// newRig serves a console; change may alter its options.
func newRig(t *testing.T, change func(*console.Options)) *rig {
	t.Helper()
	t.Parallel()
	return serveOn(t, pgtest.New(t), change)
}

// serveOn is newRig on a database that is there already.
func serveOn(t *testing.T, db *pgtest.DB, change func(*console.Options)) *rig {
	t.Helper()
	o := console.Options{
		DB: db.Pool, Host: loopback, Local: loopback, Token: token, Every: time.Millisecond,
		Explorer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "explorer at "+r.URL.Path) }),
	}
	if change != nil {
		change(&o)
	}
	c := console.New(o)
	srv := httptest.NewServer(c.Handler())
	t.Cleanup(srv.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{DB: db, t: t, srv: srv, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func loopback(name string) bool { return name == "127.0.0.1" || name == "localhost" }

// answer is what the console said.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request, with whatever headers are given.
func (r *rig) send(method, target string, form url.Values, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.srv.URL+target, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (r *rig) get(target string) answer { r.t.Helper(); return r.send(http.MethodGet, target, nil) }

// post sends a form as the console's own page would.
func (r *rig) post(target string, fields ...string) answer {
	r.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return r.send(http.MethodPost, target, form, "Origin", r.srv.URL)
}

// login logs in and returns the secret of the session.
func (r *rig) login() string {
	r.t.Helper()
	if a := r.post("/login", "name", "ada", "token", token); a.status != http.StatusSeeOther {
		r.t.Fatalf("login: %d %s", a.status, words(a))
	}
	m := regexp.MustCompile(`name="secret" value="([A-Z2-7]+)"`).FindStringSubmatch(r.get("/").body)
	if m == nil {
		r.t.Fatal("no form has the session's secret")
	}
	return m[1]
}

// words is the text of a page, its tags and its spaces dropped.
func words(a answer) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, " ")), " ")
}

func wants(t *testing.T, a answer, status int, texts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %.600s", a.status, status, words(a))
	}
	for _, text := range texts {
		if !strings.Contains(words(a), text) {
			t.Errorf("no %q in\n%s", text, words(a))
		}
	}
}

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

func of(k rail.Key) string { return "/matter?of=" + url.QueryEscape(k.String()) }

func (r *rig) demand(keys ...rail.Key) {
	r.t.Helper()
	for _, k := range keys {
		if _, err := jobs.Demand(r.t.Context(), r.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard}}, time.Minute); err != nil {
			r.t.Fatal(err)
		}
	}
}

// parked demands a matter and parks it.
func (r *rig) parked(why string) rail.Key {
	r.t.Helper()
	k := newKey()
	r.demand(k)
	if _, err := (jobs.Actor{Name: "grace", Reason: why}).Park(r.t.Context(), r.Pool, k); err != nil {
		r.t.Fatal(err)
	}
	return k
}

func (r *rig) claim(k rail.Key, worker string) runs.Claimed {
	r.t.Helper()
	got, err := runs.ClaimKey(r.t.Context(), r.Pool, k, rail.Standard, runs.ClaimOptions{Worker: worker, Builder: "http", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		r.t.Fatalf("claim: %v, %v", got, err)
	}
	return got[0]
}

func (r *rig) land(c runs.Claimed, content string) error {
	r.t.Helper()
	checked, err := frames.Check([]byte(content), 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = runs.Land(r.t.Context(), r.Pool, runs.Landing{
		Claim: c.Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: []byte(content), SchemaVersion: "brief/1", BuilderVersion: "builder/2"},
	})
	return err
}

// zombie is a matter whose first worker lost its lease, and woke when the second had
// landed.
func (r *rig) zombie() rail.Key {
	r.t.Helper()
	k := newKey()
	r.demand(k)
	first := r.claim(k, "worker-a")
	r.exec(`UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '1 hour', lease_expires_at = clock_timestamp() WHERE matter_id = $1`, k.Matter)
	second := r.claim(k, "worker-b")
	if err := r.land(second, `{"secret":"document text"}`); err != nil {
		r.t.Fatal(err)
	}
	if err := r.land(first, `{"stale":true}`); err == nil {
		r.t.Fatal("the zombie landed")
	}
	if err := runs.NoteRefused(r.t.Context(), r.Pool, first.Token.Run, true); err != nil {
		r.t.Fatal(err)
	}
	return k
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.Pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

// force runs a statement past every guard, as only a superuser can.
func (r *rig) force(sql string, args ...any) {
	r.t.Helper()
	err := pgx.BeginFunc(r.t.Context(), r.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(r.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(r.t.Context(), sql, args...)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func value[T any](r *rig, sql string, args ...any) (v T) {
	r.t.Helper()
	if err := r.Pool.QueryRow(r.t.Context(), sql, args...).Scan(&v); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (r *rig) status(k rail.Key) string {
	r.t.Helper()
	return value[string](r, `SELECT run_status FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}
