package runs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// zombie is a worker that stalls at a chosen point of its only build and goes on
// later as if nothing had been: no renewal, no look at a clock.
type zombie struct {
	t       *testing.T
	db      *pgtest.DB
	key     rail.Key
	token   rail.Token
	builds  atomic.Int64
	stalled chan runs.Request
	wake    chan struct{}
	stop    func()
}

// haunt starts a zombie that stalls inside its builder. The frame is made before
// or after the stall; pad makes it large.
func haunt(t *testing.T, over func(*pgxpool.Pool) runs.DB, early bool, pad int) *zombie {
	t.Helper()
	z := &zombie{t: t, db: pgtest.New(t), key: newKey(), stalled: make(chan runs.Request, 1), wake: make(chan struct{})}
	var record atomic.Pointer[string]
	text := `{"by":"zombie","pad":"` + strings.Repeat("x", pad) + `"}`
	record.Store(&text)
	build := builderFunc(func(_ context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
		z.builds.Add(1)
		var made string
		if early {
			made = *record.Load()
		}
		z.stalled <- r
		<-z.wake
		if !early {
			made = *record.Load()
		}
		return jsonFrame(made), runs.Usage{ModelCalls: 1}, nil
	})
	demand(t, z.db, z.key, 1)
	o := runnerOptions()
	o.Slots, o.Renew, o.Lease = 1, false, time.Hour
	z.stop = startRunner(t, over(z.db.NewPool(t, 4)), build, o)
	r := <-z.stalled
	z.token = r.Token
	return z
}

func plain(p *pgxpool.Pool) runs.DB { return p }

// resume wakes the zombie and waits until it has nothing left to do.
func (z *zombie) resume() {
	z.t.Helper()
	close(z.wake)
	z.stop()
}

// landFresh lands another holder's frame.
func (z *zombie) landFresh(c runs.Claimed) {
	z.t.Helper()
	if _, err := runs.Land(z.t.Context(), z.db.Pool, landing(z.t, c.Claim, `{"by":"fresh"}`)); err != nil {
		z.t.Fatalf("the new holder: %v", err)
	}
}

// authors names who built each kept frame, oldest first.
func (z *zombie) authors() string {
	z.t.Helper()
	return one[string](z.t, z.db, `SELECT coalesce(string_agg(frame->>'by', ' ' ORDER BY generation), '') FROM ops.matter_frames`)
}

// ended tells outcome and whether a late write was noted.
func (z *zombie) ended() string {
	z.t.Helper()
	return one[string](z.t, z.db, `SELECT outcome || CASE WHEN late_write_at IS NULL THEN '' ELSE ', late' END
	  FROM ops.matter_frame_runs WHERE run_id = $1`, z.token.Run)
}

// wants is the end of every story: who wrote frames, and what the zombie's run says.
func (z *zombie) wants(authors, ended string) {
	z.t.Helper()
	if got := z.authors(); got != authors {
		z.t.Errorf("frames of %q, want %q", got, authors)
	}
	if got := z.ended(); got != ended {
		z.t.Errorf("the zombie's run is %q, want %q", got, ended)
	}
	z.db.CheckLedger(z.t)
}

// takeOver gives the matter to another holder once its lease ran out: by key, or by
// the sweep and the queue.
func (z *zombie) takeOver(bySweep bool) runs.Claimed {
	z.t.Helper()
	expireLease(z.t, z.db, z.key)
	if !bySweep {
		c, ok := took(z.t, z.db.Pool, z.key)
		if !ok {
			z.t.Fatal("no take-over")
		}
		return c
	}
	if gone, err := sweep.Expire(z.t.Context(), z.db.Pool, 10, runs.Retry{MaxAttempts: 6}); err != nil || len(gone) != 1 {
		z.t.Fatalf("swept %v, %v", gone, err)
	}
	return mustClaim(z.t, z.db)
}

// Points one and two: before the builder's work, and after its reply.
func TestZombieAroundItsBuilder(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"before the call": false, "after the reply": true} {
		for how, bySweep := range map[string]bool{"taken over by key": false, "swept and claimed": true} {
			t.Run(name+", "+how+", fresh frame first", func(t *testing.T) {
				t.Parallel()
				z := haunt(t, plain, early, 0)
				z.landFresh(z.takeOver(bySweep))
				z.resume()
				z.wants("fresh", "expired, late")
			})
			t.Run(name+", "+how+", zombie first", func(t *testing.T) {
				t.Parallel()
				z := haunt(t, plain, early, 0)
				c := z.takeOver(bySweep)
				z.resume()
				z.wants("", "expired, late")
				z.landFresh(c)
				z.wants("fresh", "expired, late")
			})
		}
		t.Run(name+", cancelled by a person", func(t *testing.T) {
			t.Parallel()
			z := haunt(t, plain, early, 0)
			cancelled(t, z.db.Pool, z.key)
			z.resume()
			z.wants("", "cancelled, late")
		})
		t.Run(name+", its lease ran out and nobody came", func(t *testing.T) {
			t.Parallel()
			z := haunt(t, plain, early, 0)
			expireLease(t, z.db, z.key)
			z.resume()
			z.wants("zombie", "landed")
		})
	}
}

// large is a frame that lands by COPY, in a transaction of several statements.
const large = 300 << 10

// both runs a story for a frame that lands in one statement and for one that does
// not.
func both(t *testing.T, story func(t *testing.T, pad int)) {
	t.Parallel()
	t.Run("one statement", func(t *testing.T) { t.Parallel(); story(t, 0) })
	t.Run("by copy", func(t *testing.T) { t.Parallel(); story(t, large) })
}

// waiting counts the sessions of this database that wait for a lock.
func (z *zombie) waiting(n int) func() bool {
	return func() bool {
		return one[int](z.t, z.db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	}
}

// Point three: inside the landing, before its token check. Another session holds the
// row, hands it to a new holder, and lets go.
func TestZombieBeforeItsTokenCheck(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		z := haunt(t, plain, true, pad)
		expireLease(t, z.db, z.key)
		var fresh runs.Claimed
		err := pg.InTx(t.Context(), z.db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
				return err
			}
			close(z.wake)
			eventually(t, "the landing waits for the row", z.waiting(1))
			fresh, _ = took(t, tx, z.key)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		z.stop()
		z.wants("", "expired, late")
		z.landFresh(fresh)
		z.wants("fresh", "expired, late")
	})
}

// A session that only held the row changes nothing: the landing goes on.
func TestLandingWaitsForAHolderWhoGoesAway(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		z := haunt(t, plain, true, pad)
		tx, err := z.db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		close(z.wake)
		eventually(t, "the landing waits for the row", z.waiting(1))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		z.stop()
		z.wants("zombie", "landed")
	})
}

const stallLock = 4711

// stallInserts makes each insert of a frame wait for a lock that this test holds, and
// returns how to let go.
func (z *zombie) stallInserts() (let func()) {
	z.t.Helper()
	exec(z.t, z.db, `CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END'`)
	exec(z.t, z.db, `CREATE TRIGGER stall BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION stall()`)
	conn, err := z.db.Pool.Acquire(z.t.Context())
	if err != nil {
		z.t.Fatal(err)
	}
	if _, err := conn.Exec(z.t.Context(), `SELECT pg_advisory_lock($1)`, stallLock); err != nil {
		z.t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(z.t.Context(), `SELECT pg_advisory_unlock($1)`, stallLock); err != nil {
			z.t.Error(err)
		}
		conn.Release()
	}
}

// stalls has a zombie whose lease ran out land, as far as the insert of its frame; let
// goes on with it.
func (z *zombie) stalls() (let func()) {
	z.t.Helper()
	expireLease(z.t, z.db, z.key)
	let = z.stallInserts()
	close(z.wake)
	eventually(z.t, "the landing stalls", z.waiting(1))
	return let
}

// taken has another holder wait for the row, and hands over what that one gets.
func (z *zombie) taken() <-chan runs.Claimed {
	z.t.Helper()
	won := make(chan runs.Claimed, 1)
	go func() {
		c, _ := took(z.t, z.db.Pool, z.key)
		won <- c
	}()
	eventually(z.t, "the take-over waits for the row", z.waiting(2))
	return won
}

// Point four: inside the landing, after its token check. The row is the zombie's
// until its transaction ends, so nobody can be told to build meanwhile: it lands
// once, and whoever waited takes the next number.
func TestZombieAfterItsTokenCheck(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		z := haunt(t, plain, true, pad)
		let := z.stalls()
		if gone, err := sweep.Expire(t.Context(), z.db.Pool, 10, runs.Retry{MaxAttempts: 6}); err != nil || len(gone) != 0 {
			t.Errorf("swept a row that is being landed: %v, %v", gone, err)
		}
		won := z.taken()
		let()
		fresh := <-won
		z.stop()
		if fresh.Token.Generation <= z.token.Generation {
			t.Errorf("token %s after %s", fresh.Token, z.token)
		}
		z.wants("zombie", "landed")
		z.landFresh(fresh)
		z.wants("zombie fresh", "landed")
	})
}

// The same, but its session dies before the commit: nothing of it is kept.
func TestZombieWhoseSessionDiesInItsLanding(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		z := haunt(t, plain, true, pad)
		let := z.stalls()
		won := z.taken()
		exec(t, z.db, `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		  WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()`)
		fresh := <-won
		let()
		z.stop()
		z.wants("", "expired, late")
		z.landFresh(fresh)
		z.wants("fresh", "expired, late")
	})
}
