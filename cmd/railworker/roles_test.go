package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// as gives each part of the rail the database role that is meant for it.
func (r *wholeRail) as(t *testing.T) (app *pgxpool.Pool) {
	t.Helper()
	r.db.GrantRoles(t)
	r.worker["DATABASE_URL"] = r.db.As(t, "rail_worker")
	r.relay["DATABASE_URL"] = r.db.As(t, "rail_relay")
	return r.db.PoolAs(t, "rail_app")
}

// troubled is a build service under which every end of an attempt occurs.
func troubled(ctx context.Context, w http.ResponseWriter, c call) {
	switch {
	case c.Matter[15]%4 == 1 && c.Attempt == 1:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case c.Matter[15]%4 == 2 && c.Attempt == 1:
		rest(ctx, 2*time.Second)
		http.Error(w, "too late", http.StatusGatewayTimeout)
	case c.Matter[15]%4 == 3:
		http.Error(w, "the matter is broken", http.StatusUnprocessableEntity)
	case c.Matter[15]%8 == 4: // larger than what is sent as a parameter
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"firm_id":%q,"matter_id":%q,"generation":%d,"schema_version":"test/1","builder_version":"test/1",
			"frame":{"run":%q,"text":%q}}`, c.Firm, c.Matter, c.Generation, c.Run, strings.Repeat("word ", 100_000))
	default:
		answer(w, c)
	}
}

// Each program has its own narrow role, and everything that a worker and a relay do
// in their lives works with it: decide, claim, renew, land small and large, fail,
// release, park, sweep, retention, the canary, the gauges and the invariants.
func TestWholeRailOnNarrowRoles(t *testing.T) {
	t.Parallel()
	r := newRail(t, serve(t, troubled), awsfake.Layout{})
	app := r.as(t)
	r.worker = r.worker.with(settings{
		"CANARY_EVERY": "1s", "FRAMES_KEEP": "1", "DISPATCH_PER_FIRM": "50",
		"LEASE_DURATION": "1s", "WORKER_STOP_GRACE": "1s",
	})
	keys := newKeys(3, 24)
	for i := range keys {
		keys[i].Matter[15] = byte(i)
	}
	relay, worker := r.startRelay(t), r.startWorker(t)
	worker.awaitStart(t)
	tell(t, app, uploaded, keys...)
	eventually(t, 60*time.Second, "every matter is current or parked", func() bool {
		return peek[int](t.Context(), r.db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status IN ('idle', 'parked') AND firm_id <> $1`, rail.Canary().Firm) == len(keys)
	})
	worker.kill() // in mid-life: its successor sweeps what it held
	successor := r.startWorker(t)
	tell(t, app, uploaded, keys...)
	awaitCanary(t, r.db.Pool)
	r.awaitPublished(t)
	successor.awaitStart(t)
	eventually(t, 60*time.Second, "the invariants are asked", func() bool {
		return successor.metric(`rail_invariant_violations{invariant="one_frame_per_landing"}`) == 0
	})
	assertFirmReads(t, app, r.db.Pool, keys[0])
	for name, p := range map[string]*process{"relay": relay, "worker": worker, "its successor": successor} {
		for _, word := range []string{"42501", "permission denied"} {
			if strings.Contains(p.log.String(), word) {
				t.Errorf("%s has too few rights:\n%s", name, p.log.tail(3000))
			}
		}
	}
}

func awaitCanary(t *testing.T, db pg.DB) {
	t.Helper()
	eventually(t, 30*time.Second, "the canary landed", func() bool {
		return peek[int](t.Context(), db, `SELECT count(*) FROM ops.matter_frames WHERE firm_id = $1`, rail.Canary().Firm) > 0
	})
}

// assertFirmReads: the application reads what is current of the firm that it names,
// and nothing without a name.
func assertFirmReads(t *testing.T, app *pgxpool.Pool, all pg.DB, k rail.Key) {
	t.Helper()
	want := one[int](t, all, `SELECT count(*) FROM ops.matter_frame_jobs WHERE firm_id = $1 AND landed_generation > 0`, k.Firm)
	for firm, want := range map[string]int{k.Firm.String(): want, "": 0} {
		err := pgx.BeginFunc(t.Context(), app, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SELECT set_config('rail.firm_id', $1, true)`, firm); err != nil {
				return err
			}
			if got := one[int](t, tx, `SELECT count(*) FROM ops.current_frames`); got != want {
				t.Errorf("firm %q reads %d current frames, want %d", firm, got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
