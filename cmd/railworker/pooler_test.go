package main

import (
	"strings"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

func firms(keys []rail.Key) (out []rail.UUID) {
	for _, k := range keys {
		out = append(out, k.Firm)
	}
	return out
}

// Relay and worker on their narrow roles through a transaction-mode pooler with few
// backends: decide, claim, renew, land small and large, with limits of dispatch.
func TestWholeRailThroughAPooler(t *testing.T) {
	t.Parallel()
	r := newRail(t, serve(t, troubled), awsfake.Layout{})
	through := r.db.Pooler(t, nil)
	app := r.as(t)
	for _, s := range []settings{r.worker, r.relay} {
		s["DATABASE_URL"], s["DATABASE_STATEMENT_CACHE"] = through(s["DATABASE_URL"]), "0"
	}
	r.worker = r.worker.with(settings{"CANARY_EVERY": "1s", "DISPATCH_PER_FIRM": "50", "LEASE_DURATION": "1s"})
	keys := newKeys(3, 16)
	for i := range keys {
		keys[i].Matter[15] = byte(i)
	}
	relay, worker := r.startRelay(t), r.startWorker(t)
	worker.awaitStart(t)
	tell(t, app, uploaded, keys...)
	awaitCanary(t, r.db.Pool)
	r.awaitPublished(t)
	eventually(t, 60*time.Second, "every matter is current or parked", func() bool {
		return peek[int](t.Context(), r.db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status IN ('idle', 'parked') AND firm_id = ANY ($1)`, firms(keys)) == len(keys)
	})
	for name, p := range map[string]*process{"relay": relay, "worker": worker} {
		for _, word := range []string{"42501", "42P05", "26000", "prepared statement"} {
			if strings.Contains(p.log.String(), word) {
				t.Errorf("%s: %s:\n%s", name, word, p.log.tail(3000))
			}
		}
	}
}

// With prepared statements a worker would stumble over those of others: it does not
// start, and says what to change.
func TestPoolerIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	swallowed := "default_transaction_isolation,statement_timeout,lock_timeout,idle_in_transaction_session_timeout"
	for name, through := range map[string]func(string) string{
		"strict": db.Pooler(t, nil), "lax": db.Pooler(t, map[string]string{"ignore_startup_parameters": swallowed}),
	} {
		code, text := output(t, quick(through(db.DSN), "http://127.0.0.1:1/"), "run")
		if code != 2 || !strings.Contains(text, "database.statement_cache: must be 0") || !strings.Contains(text, "pooler") {
			t.Errorf("%s: exit %d:\n%s", name, code, text)
		}
	}
}
