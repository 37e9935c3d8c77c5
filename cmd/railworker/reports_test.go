package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// field report 2: a lease much shorter than the build is renewed, so that no second
// worker is given the same job. (That a start without renewal is refused is tested
// with the other mistakes.)
func TestLeaseShorterThanTheBuildIsRenewed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
		rest(ctx, 4*time.Second)
		answer(w, c)
	})
	s := quick(db.DSN, builder.URL).with(settings{"LEASE_DURATION": "1s"})
	var fleet []*process
	for range 3 {
		fleet = append(fleet, startWorker(t, s))
	}
	tell(t, db.Pool, uploaded, newKey())
	eventually(t, 10*time.Second, "it is being built", func() bool { return builder.count() > 0 })
	awaitQuiet(t, db.Pool, 20*time.Second)
	if n := builder.count(); n != 1 {
		t.Errorf("%d builder calls for one demand", n)
	}
	var renewed float64
	for _, w := range fleet {
		renewed += w.metric(`rail_lease_renewals_total{outcome="renewed"}`)
	}
	if renewed < 3 {
		t.Errorf("%v renewals", renewed)
	}
	assertCurrent(t, db.Pool)
}

// field report 3: every stored or compared instant is the database's, so that the
// zones of processes and sessions play no part; nor does a process's clock.
func TestZonesPlayNoPart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
		rest(ctx, 3*time.Second)
		answer(w, c)
	})
	for _, zone := range []string{"America/New_York", "Asia/Tokyo"} {
		s := quick(db.DSN+"&timezone="+zone, builder.URL)
		p := launchIn(t, os.Args[0], append(s.environ(), "TZ="+zone), "run")
		p.awaitStart(t)
	}
	tell(t, db.Pool, uploaded, newKeys(2, 8)...)
	eventually(t, 10*time.Second, "all are being built", func() bool { return builder.count() == 8 })
	awaitQuiet(t, db.Pool, 20*time.Second)
	if n := builder.count(); n != 8 {
		t.Errorf("%d builder calls for 8 matters", n)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome <> 'landed'`); n != 0 {
		t.Errorf("%d runs did not land", n)
	}
	assertCurrent(t, db.Pool)
}

// field report 3: a claimer that waits on the row's lock for a third of the lease
// gets a whole lease all the same: it starts when the claim is won.
func TestLeaseStartsWhenTheClaimIsWon(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	db := pgtest.New(t)
	k := newKey()
	if _, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	won := make(chan error, 1)
	go func() {
		_, err := runs.ClaimKey(t.Context(), db.Pool, k, rail.Interactive, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: lease})
		won <- err
	}()
	eventually(t, 5*time.Second, "the claim waits", func() bool {
		return peek[bool](t.Context(), db.Pool, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	})
	pass(t, lease/3)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-won; err != nil {
		t.Fatal(err)
	}
	if left := one[time.Duration](t, db.Pool, `SELECT lease_expires_at - clock_timestamp() FROM ops.matter_frame_jobs`); left < lease-500*time.Millisecond {
		t.Errorf("%s are left of a lease of %s", left, lease)
	}
}

// field report 4: when the answer to a landing is lost, or the landing itself, the
// run row is asked before anything else is done; nothing is built twice.
func TestLostAnswerOfALandingIsSettled(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]bool{"answer": false, "request": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			p, dsn := through(t, db.DSN)
			builder := serve(t, func(_ context.Context, w http.ResponseWriter, c call) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"firm_id":%q,"matter_id":%q,"generation":%d,"schema_version":"1","builder_version":"1","frame":{"a":"lose-this-frame"}}`,
					c.Firm, c.Matter, c.Generation)
			})
			w := startWorker(t, quick(dsn, builder.URL))
			p.lose("lose-this-frame", 2, request)
			tell(t, db.Pool, uploaded, newKeys(1, 6)...)
			awaitQuiet(t, db.Pool, 30*time.Second)
			if n := p.lostSoFar(); n != 2 {
				t.Errorf("%d lost", n)
			}
			if n := builder.count(); n != 6 {
				t.Errorf("%d builder calls for 6 matters", n)
			}
			eventually(t, 10*time.Second, "the worker knows that all landed", func() bool { return w.metric(`rail_runs_total{outcome="landed"}`) == 6 })
			assertCurrent(t, db.Pool)
		})
	}
}

// field report 4: a claim whose answer is lost is found by its run ids and built at
// once, instead of a lease later and an attempt dearer.
func TestLostAnswerOfAClaimIsSettled(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p, dsn := through(t, db.DSN)
	builder := serve(t, nil)
	startWorker(t, quick(dsn, builder.URL).with(settings{"WORKER_NAME": "its-answer-is-lost", "LEASE_DURATION": "30s", "SETTLE_QUIET": "0"}))
	exec := func(sql string) {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT ops.pause_dispatch(NULL, 'test', 'test')`)
	tell(t, db.Pool, uploaded, newKeys(1, 5)...)
	eventually(t, 10*time.Second, "all are queued", func() bool {
		return peek[int](t.Context(), db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'queued'`) == 5
	})
	p.lose("its-answer-is-lost", 1000, false)
	exec(`SELECT ops.resume_dispatch(NULL, 'test', 'test')`)
	eventually(t, 20*time.Second, "a claim was won and its answer lost", func() bool {
		return peek[int](t.Context(), db.Pool, `SELECT count(*) FROM ops.matter_frame_runs`) == 5
	})
	p.lose("", 0, false)
	awaitQuiet(t, db.Pool, 15*time.Second)
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome <> 'landed' OR attempt <> 1`); n != 0 || builder.count() != 5 {
		t.Errorf("%d runs did not land at the first attempt; %d builder calls", n, builder.count())
	}
	assertCurrent(t, db.Pool)
}

// field report 4: slow answers alone change nothing.
func TestSlowAnswersOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p, dsn := through(t, db.DSN)
	builder := serve(t, slow(100*time.Millisecond))
	startWorker(t, quick(dsn, builder.URL).with(settings{"LEASE_DURATION": "3s"}))
	p.delay.Store(int64(300 * time.Millisecond))
	tell(t, db.Pool, uploaded, newKeys(2, 10)...)
	awaitQuiet(t, db.Pool, 60*time.Second)
	if n := builder.count(); n != 10 {
		t.Errorf("%d builder calls for 10 matters", n)
	}
	assertCurrent(t, db.Pool)
}

// field report 6: nothing asks for a second session while it holds one, so a pool
// that is much too small makes everybody slow and nobody hang.
func TestSmallPoolsDoNotHang(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	builder := serve(t, slow(50*time.Millisecond))
	w := startWorker(t, quick(db.DSN, builder.URL).with(settings{"DATABASE_MAX_CONNS": "5", "WORKER_SLOTS": "50"}))
	small, keys := db.NewPool(t, 2), newKeys(5, 25)
	begun := time.Now()
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			k := keys[i%len(keys)]
			for range 5 {
				_, err := jobs.Demand(t.Context(), small, []jobs.Want{{Key: k, Count: 1, Priority: rail.Interactive}}, time.Minute)
				if err == nil {
					err = pg.InTx(t.Context(), small, func(tx pgx.Tx) error {
						_, err := tx.Exec(t.Context(), `SELECT ops.operator_demand(ARRAY[$1::uuid], ARRAY[$2::uuid], 0::smallint, 'test', 'test')`, k.Firm, k.Matter)
						return err
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
				w.probe("/readyz")
			}
		})
	}
	calls.Wait()
	awaitQuiet(t, db.Pool, 30*time.Second)
	t.Logf("500 demands on two sessions, all built, in %s", time.Since(begun).Round(time.Millisecond))
	if n := w.metric(`rail_loop_errors_total{class="client",loop="claim"}`); n != 0 {
		t.Errorf("%v failed claims", n)
	}
	assertSoundWithoutFacts(t, db.Pool)
}

// assertSoundWithoutFacts is for demand that operators made: landings then have no
// facts to be counted against.
func assertSoundWithoutFacts(t testing.TB, db pg.DB) {
	t.Helper()
	checks := soundness()
	delete(checks, "more landings of a matter than facts")
	for what, sql := range checks {
		if n := one[int](t, db, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// field report 17: whatever a build service does instead of answering, its slot is
// free again at the timeout, the attempt says so, and a stop is not held up.
func TestSilentBuilderFreesItsSlot(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(context.Context, http.ResponseWriter){
		"never answers": func(ctx context.Context, _ http.ResponseWriter) { <-ctx.Done() },
		"stops after the header": func(ctx context.Context, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-ctx.Done()
		},
		"drips": func(ctx context.Context, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			for ctx.Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				rest(ctx, 50*time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			bad, good := newKey(), newKey()
			builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
				if c.Key == bad {
					silence(ctx, w)
					return
				}
				answer(w, c)
			})
			w := startWorker(t, quick(db.DSN, builder.URL).with(settings{
				"WORKER_SLOTS": "1", "BUILDER_TIMEOUT": "4s", "RETRY_BACKOFF": "1m", "RETRY_BACKOFF_MAX": "1m", "WORKER_STOP_GRACE": "500ms",
			}))
			tell(t, db.Pool, uploaded, bad)
			eventually(t, time.Minute, "it hangs, and shows", func() bool {
				return w.metric("rail_worker_slots_in_use") == 1 && w.metric("rail_run_longest_running_seconds") > 0.3
			})
			tell(t, db.Pool, uploaded, good)
			awaitStatus(t, db.Pool, good, "idle")
			kind := one[string](t, db.Pool, `SELECT outcome || ' ' || error_kind FROM ops.matter_frame_runs WHERE matter_id = $1 ORDER BY generation LIMIT 1`, bad.Matter)
			if kind != "failed timeout" {
				t.Errorf("the run ended as %q", kind)
			}
			if n := w.metric(`rail_run_errors_total{error_kind="timeout"}`); n < 1 {
				t.Errorf("%v timeouts counted", n)
			}
			again := builder.count()
			if _, err := db.Pool.Exec(t.Context(), `UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() WHERE run_status = 'queued'`); err != nil {
				t.Fatal(err)
			}
			eventually(t, time.Minute, "it hangs again", func() bool { return builder.count() > again })
			w.signal(syscall.SIGTERM)
			if code := w.await(t, 5*time.Second); code != 0 {
				t.Errorf("exit %d", code)
			}
		})
	}
}

// killerScript is a build command that kills its worker for one matter, and builds
// the others.
const killerScript = `#!/bin/sh
request=$(cat)
case "$request" in
*%s*) kill -9 "$PPID"; sleep 5; exit 1 ;;
esac
printf '{"built":true}'
`

// field report 18: a matter whose build kills the worker costs an attempt each time,
// as attempts are counted at the claim; it is parked, and the healthy ones finish.
func TestMatterThatKillsItsWorkerIsParked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	bad, healthy := newKey(), newKeys(4, 20)
	script := filepath.Join(t.TempDir(), "build")
	if err := os.WriteFile(script, fmt.Appendf(nil, killerScript, bad.Matter), 0o700); err != nil {
		t.Fatal(err)
	}
	s := quick(db.DSN, "").with(settings{
		"BUILDER_KIND": "exec", "BUILDER_EXEC_COMMAND": `["/bin/sh", "` + script + `"]`, "LEASE_DURATION": "1s",
		"RETRY_MAX_ATTEMPTS": "4", "WORKER_SLOTS": "2",
	})
	delete(s, "BUILDER_HTTP_URL")
	tell(t, db.Pool, uploaded, append(healthy, bad)...)
	var fleet [3]*process
	deaths := 0
	for i := range fleet {
		fleet[i] = launch(t, s, "run")
	}
	eventually(t, 60*time.Second, "the bad one is parked and the healthy ones are current", func() bool {
		for i, w := range fleet {
			if w.gone() {
				deaths++
				fleet[i] = launch(t, s, "run")
			}
		}
		return peek[int](t.Context(), db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'idle'`) == len(healthy) &&
			statusOf(t, db.Pool, bad) == "parked"
	})
	if deaths != 4 {
		t.Errorf("%d workers died", deaths)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_runs WHERE matter_id = $1 AND outcome = 'expired' AND error_kind = 'lease_expired'`, bad.Matter); n != 4 {
		t.Errorf("%d attempts of the bad matter", n)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.parked'`); n != 1 {
		t.Errorf("%d facts of its parking", n)
	}
	awaitQuiet(t, db.Pool, 10*time.Second)
	assertSound(t, db.Pool)
}
