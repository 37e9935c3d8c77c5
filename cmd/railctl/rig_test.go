package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/trigger"
)

// rig is a database and the environment that leads railctl to it.
type rig struct {
	*pgtest.DB
	t   *testing.T
	env []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return rigOn(t, pgtest.New(t))
}

func rigOn(t *testing.T, db *pgtest.DB) *rig {
	return &rig{DB: db, t: t, env: []string{"RAIL_DATABASE_URL=" + db.DSN, "USER=ada"}}
}

// answer is what one call of railctl said.
type answer struct {
	code     int
	out, err string
}

// ctl runs railctl as a script would: nobody at a terminal.
func (r *rig) ctl(args ...string) answer {
	r.t.Helper()
	return call(r.t, r.env, args...)
}

func call(t *testing.T, env []string, args ...string) answer {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, env, strings.NewReader(""), &out, &errs)
	return answer{code, out.String(), errs.String()}
}

// at runs railctl with a person at the terminal who types.
func (r *rig) at(typed string, args ...string) answer {
	r.t.Helper()
	var out, errs bytes.Buffer
	a := &app{env: r.env, stdin: strings.NewReader(typed), stdout: &out, stderr: &errs, now: time.Now, terminal: true, watched: true}
	code := a.execute(r.t.Context(), args)
	return answer{code, out.String(), errs.String()}
}

// ok runs railctl and fails the test unless it succeeds.
func (r *rig) ok(args ...string) string {
	r.t.Helper()
	a := r.ctl(args...)
	if a.code != exitOK {
		r.t.Fatalf("railctl %s: exit %d\n%s%s", strings.Join(args, " "), a.code, a.out, a.err)
	}
	return a.out
}

// decode runs railctl with -o json and returns the data of the envelope.
func decode[T any](r *rig, kind string, args ...string) (data T) {
	r.t.Helper()
	var e struct {
		Schema, Kind string
		Data         json.RawMessage
	}
	out := r.ok(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		r.t.Fatalf("%v in\n%s", err, out)
	}
	if e.Schema != "railctl/1" || e.Kind != kind {
		r.t.Errorf("envelope %q %q, want railctl/1 %q", e.Schema, e.Kind, kind)
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		r.t.Fatalf("%v in\n%s", err, out)
	}
	return data
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.Pool.Exec(r.t.Context(), sql, args...); err != nil {
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

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

// queued makes n matters of one firm with one demand each.
func (r *rig) queued(firm rail.UUID, n int) []rail.Key {
	r.t.Helper()
	keys := make([]rail.Key, n)
	wants := make([]jobs.Want, n)
	for i := range keys {
		keys[i] = rail.Key{Firm: firm, Matter: rail.NewUUID()}
		wants[i] = jobs.Want{Key: keys[i], Count: 1, Priority: rail.Standard}
	}
	if _, err := jobs.Demand(r.t.Context(), r.Pool, wants, time.Minute); err != nil {
		r.t.Fatal(err)
	}
	return keys
}

func (r *rig) one() rail.Key { return r.queued(rail.NewUUID(), 1)[0] }

func (r *rig) claim(k rail.Key) runs.Claimed {
	r.t.Helper()
	got, err := runs.ClaimKey(r.t.Context(), r.Pool, k, rail.Standard, runs.ClaimOptions{Worker: "worker-a", Builder: "http", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		r.t.Fatalf("claim: %v, %v", got, err)
	}
	return got[0]
}

// handBack claims a matter and releases it as a worker does that blames the builder.
func (r *rig) handBack(k rail.Key) {
	r.t.Helper()
	c := r.claim(k)
	if _, err := runs.Release(r.t.Context(), r.Pool, c.Claim, runs.Failure{Kind: "auth", Text: "the builder answered 401"}, time.Second); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) land(c runs.Claimed, builder string) {
	r.t.Helper()
	text := fmt.Sprintf(`{"secret":"document text","generation":%d}`, c.Token.Generation)
	checked, err := frames.Check([]byte(text), 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = runs.Land(r.t.Context(), r.Pool, runs.Landing{
		Claim: c.Claim, Digest: checked.Digest,
		Frame: runs.Frame{JSON: []byte(text), SchemaVersion: "brief/1", BuilderVersion: builder},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) landed(builder string) rail.Key {
	r.t.Helper()
	k := newKey()
	r.land(r.claim(k), builder)
	return k
}

func (r *rig) status(k rail.Key) string {
	r.t.Helper()
	return value[string](r, `SELECT run_status FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

func (r *rig) fact(k rail.Key, name string) (event rail.UUID) {
	r.t.Helper()
	return value[rail.UUID](r, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3) RETURNING event_id`, k.Firm, k.Matter, name)
}

// decide runs the trigger once, with one rule: document.uploaded.
func (r *rig) decide() {
	r.t.Helper()
	rules, err := trigger.NewRules([]trigger.Rule{{Name: "document.uploaded", Priority: rail.Standard}}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	opts := trigger.Options{Rules: rules, MaxWait: time.Minute, Batch: 100, Log: slog.New(slog.DiscardHandler)}
	if _, err := trigger.New(r.Pool, prometheus.NewRegistry(), opts).Once(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// contents is a hash of every row of the schema.
func (r *rig) contents() map[string]string {
	r.t.Helper()
	ctx := context.WithoutCancel(r.t.Context())
	rows, err := r.Pool.Query(ctx, `SELECT table_name, (xpath('//h/text()', query_to_xml(format(
	  'SELECT md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), %L)) AS h FROM ops.%I t', '', table_name), false, true, '')))[1]::text
	  FROM information_schema.tables WHERE table_schema = 'ops' AND table_type = 'BASE TABLE'`)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, hash string
		if err := rows.Scan(&name, &hash); err != nil {
			r.t.Fatal(err)
		}
		out[name] = hash
	}
	if len(out) < 9 || rows.Err() != nil {
		r.t.Fatalf("%d tables, %v", len(out), rows.Err())
	}
	return out
}

// plain makes an answer comparable: identifiers numbered in order of appearance,
// times and ages replaced, columns two spaces apart.
func plain(text string) string {
	seen := map[string]string{}
	text = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).ReplaceAllStringFunc(text, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("#%d", len(seen)+1)
		}
		return seen[id]
	})
	for _, p := range [][2]string{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`\b(now|in [0-9.]+[a-z0-9.]+|[0-9.]+[a-zµ0-9.]+ ago)\b`, "AGE"},
		{`\b[0-9.]+(µs|ms|s)\b`, "SPAN"},
		{`digest [0-9a-f]{12}`, "digest DIGEST"},
		{` {2,}`, "  "},
	} {
		text = regexp.MustCompile(p[0]).ReplaceAllString(text, p[1])
	}
	return text
}
