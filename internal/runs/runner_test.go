package runs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// builderFunc is a Builder that a test writes.
type builderFunc func(context.Context, runs.Request) (runs.Frame, runs.Usage, error)

func (f builderFunc) Build(ctx context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
	return f(ctx, r)
}

// unwatched is a Loops that nobody watches.
type unwatched struct{}

func (unwatched) Progress(string)       {}
func (unwatched) Failed(string, string) {}

func runnerOptions() runs.Options {
	return runs.Options{
		Worker: "test", Slots: 4, Lease: 10 * time.Second, Renew: true, StopGrace: 5 * time.Second, BuildTimeout: time.Minute, BuilderName: "test",
		Retry:    runs.Retry{MaxAttempts: 2, Backoff: time.Hour, BackoffMax: time.Hour},
		MaxFrame: 1 << 20, KeepFrames: 3, MaxIdle: 50 * time.Millisecond, Loops: unwatched{}, Log: slog.New(slog.DiscardHandler),
	}
}

// startRunner runs a worker's loop; stop ends it and waits.
func startRunner(t *testing.T, db runs.DB, b runs.Builder, o runs.Options) (stop func()) {
	t.Helper()
	return startCounted(t, prometheus.NewRegistry(), db, b, o)
}

// startCounted is startRunner for a test that reads the figures.
func startCounted(t *testing.T, reg prometheus.Registerer, db runs.DB, b runs.Builder, o runs.Options) (stop func()) {
	t.Helper()
	r := runs.New(db, b, reg, o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the runner ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !yes() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func jsonFrame(s string) runs.Frame {
	return runs.Frame{JSON: []byte(s), SchemaVersion: "test/1", BuilderVersion: "test/1"}
}

// Bad frames and bad answers of every kind: the run keeps the reason, nothing of
// the frame is stored, and the matter is parked or tried again by class.
func TestBadBuildsAreRecordedAndLandNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	frame := func(s string) builderFunc {
		return func(context.Context, runs.Request) (runs.Frame, runs.Usage, error) {
			return jsonFrame(s), runs.Usage{}, nil
		}
	}
	fails := func(e *runs.BuildError) builderFunc {
		return func(context.Context, runs.Request) (runs.Frame, runs.Usage, error) {
			return runs.Frame{}, runs.Usage{}, e
		}
	}
	type verdict struct{ outcome, kind, status string }
	parked := verdict{"failed", "invalid_frame", "parked"}
	cases := map[rail.Key]struct {
		name  string
		build builderFunc
		want  verdict
	}{
		newKey(): {"a NUL", frame(`{"a":"\u0000"}`), parked},
		newKey(): {"a lone surrogate", frame(`{"a":"\ud800"}`), parked},
		newKey(): {"an invalid byte", frame("{\"a\":\"\xff\"}"), parked},
		newKey(): {"not an object", frame(`[1]`), parked},
		newKey(): {"too large", frame(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), parked},
		newKey(): {"cut", frame(`{"a":`), parked},
		newKey(): {"a key twice", frame(`{"a":1,"a":2}`), parked},
		newKey(): {"a number no double holds", frame(`{"a":9007199254740993}`), parked},
		newKey(): {"wrong matter", fails(&runs.BuildError{Class: runs.Mismatch, Kind: runs.KindMismatch, Text: "answer for another matter"}), verdict{"failed", "mismatch", "parked"}},
		newKey(): {"refused", fails(&runs.BuildError{Class: runs.Permanent, Kind: runs.KindHTTP4xx, Text: "422"}), verdict{"failed", "http_4xx", "parked"}},
		newKey(): {"busy", fails(&runs.BuildError{Class: runs.Transient, Kind: runs.KindRateLimited, Text: "429"}), verdict{"failed", "rate_limited", "queued"}},
		newKey(): {"panics", func(context.Context, runs.Request) (runs.Frame, runs.Usage, error) { panic("\x00 secret") }, verdict{"failed", "panic", "queued"}},
		// field report 7: the failure itself is recorded whatever its bytes
		newKey(): {"unstorable error text", fails(&runs.BuildError{
			Class: runs.Permanent, Kind: runs.KindHTTP4xx, Text: "a\x00b\xffc", Preview: []byte("a\x00b\xff"),
		}), verdict{"failed", "http_4xx", "parked"}},
	}
	for k := range cases {
		demand(t, db, k, 1)
	}
	startRunner(t, db.Pool, builderFunc(func(ctx context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
		return cases[r.Key].build(ctx, r)
	}), runnerOptions())
	eventually(t, "every run has ended", func() bool {
		return one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome <> 'running'`) == len(cases)
	})
	for k, c := range cases {
		var got verdict
		err := db.Pool.QueryRow(t.Context(), `SELECT r.outcome, r.error_kind, j.run_status FROM ops.matter_frame_runs r JOIN ops.matter_frame_jobs j
		  USING (firm_id, matter_id) WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter).Scan(&got.outcome, &got.kind, &got.status)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frames`); n != 0 {
		t.Errorf("%d frames", n)
	}
	if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE error_preview = '\x610062ff'::bytea`); n != 1 {
		t.Errorf("the original bytes were kept %d times", n)
	}
}

func TestAStopHandsClaimsBackUncharged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	started := make(chan struct{})
	o := runnerOptions()
	o.StopGrace = 10 * time.Millisecond
	stop := startRunner(t, db.Pool, builderFunc(func(ctx context.Context, _ runs.Request) (runs.Frame, runs.Usage, error) {
		close(started)
		<-ctx.Done()
		return runs.Frame{}, runs.Usage{}, ctx.Err()
	}), o)
	<-started
	stop()
	got := one[string](t, db, `SELECT run_status || ' ' || attempts || ' ' || (SELECT outcome || ' ' || error_kind FROM ops.matter_frame_runs) FROM ops.matter_frame_jobs`)
	if got != "queued 0 released interrupted" {
		t.Error(got)
	}
}

func TestALostTokenEndsTheBuildAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	started, ended := make(chan struct{}), make(chan error, 1)
	o := runnerOptions()
	o.Lease = 3 * time.Second
	startRunner(t, db.Pool, builderFunc(func(ctx context.Context, _ runs.Request) (runs.Frame, runs.Usage, error) {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return runs.Frame{}, runs.Usage{}, ctx.Err()
	}), o)
	<-started
	exec(t, db, `SELECT ops.park_matter($1, $2, 'cancel', 'test', 'wrong document')`, k.Firm, k.Matter)
	if cause := <-ended; !strings.Contains(cause.Error(), "another token") {
		t.Errorf("ended because %v", cause)
	}
	if got := one[string](t, db, `SELECT outcome || ' ' || (late_write_at IS NULL) FROM ops.matter_frame_runs`); got != "cancelled true" {
		t.Error(got)
	}
}

// One trace a run: the builder is called with it, the run row and the fact of the
// landing carry it, and its id is the run's.
func TestOneTraceARun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	asked := make(chan runs.Request, 1)
	startRunner(t, db.Pool, builderFunc(func(_ context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
		asked <- r
		return jsonFrame(`{}`), runs.Usage{}, nil
	}), runnerOptions())
	r := <-asked
	eventually(t, "it has landed", func() bool { return status(t, db, k) == "idle" })
	want := r.Token.TraceParent()
	run := one[string](t, db, `SELECT traceparent FROM ops.matter_frame_runs`)
	told := one[string](t, db, `SELECT traceparent FROM ops.domain_event_outbox WHERE event_name = 'brief.landed'`)
	if r.TraceParent != want || run != want || told != want || !strings.Contains(want, strings.ReplaceAll(r.Token.Run.String(), "-", "")) {
		t.Errorf("request %s, run %s, fact %s, want %s", r.TraceParent, run, told, want)
	}
}

// A worker without the right to write frames is nobody's matter's fault: claims go
// back uncharged, and after the first nobody pays for another build.
func TestNoRightToLandPausesInsteadOfParking(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `CREATE FUNCTION no_right() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	  RAISE EXCEPTION 'permission denied for table matter_frames' USING ERRCODE = '42501'; END $$`)
	exec(t, db, `CREATE TRIGGER no_right BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION no_right()`)
	for range 5 {
		demand(t, db, newKey(), 1)
	}
	o := runnerOptions()
	o.Slots = 1
	startRunner(t, db.Pool, builderFunc(func(context.Context, runs.Request) (runs.Frame, runs.Usage, error) {
		return jsonFrame(`{}`), runs.Usage{}, nil
	}), o)
	eventually(t, "one build was handed back", func() bool {
		return one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'released'`) == 1
	})
	exec(t, db, `DROP TRIGGER no_right ON ops.matter_frames`)
	eventually(t, "all landed once the right was there", func() bool {
		return one[int](t, db, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'idle'`) == 5
	})
	if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome NOT IN ('landed', 'released')`); n != 0 {
		t.Errorf("%d runs were charged", n)
	}
}
