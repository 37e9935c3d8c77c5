package history_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/model/history"
	"briefrail/internal/model/specs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

const attempts = 3

// life is one matter that meets everything once.
type life struct {
	t   *testing.T
	db  *pgtest.DB
	key rail.Key
}

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) demand(n int) {
	l.t.Helper()
	_, err := jobs.Demand(l.t.Context(), l.db.Pool, []jobs.Want{{Key: l.key, Count: n, Priority: rail.Interactive}}, time.Minute)
	l.must(err)
}

func (l *life) claim(lease time.Duration) jobs.Claim {
	l.t.Helper()
	got, err := runs.Claim(l.t.Context(), l.db.Pool, 1, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: lease})
	l.must(err)
	if len(got) != 1 || got[0].Key != l.key {
		l.t.Fatalf("claimed %+v", got)
	}
	return got[0].Claim
}

func (l *life) land(c jobs.Claim) error {
	l.t.Helper()
	frame := []byte(`{"brief":"history"}`)
	checked, err := frames.Check(frame, 1<<20)
	l.must(err)
	_, err = runs.Land(l.t.Context(), l.db.Pool, runs.Landing{
		Claim: c, Digest: checked.Digest, Frame: runs.Frame{JSON: frame, SchemaVersion: "test/1", BuilderVersion: "test/1"},
	})
	return err
}

func (l *life) fail(c jobs.Claim, permanent bool) {
	l.t.Helper()
	_, err := runs.Fail(l.t.Context(), l.db.Pool, c, runs.Failure{Kind: "test", Text: "no", Permanent: permanent}, runs.Retry{MaxAttempts: attempts})
	l.must(err)
}

func (l *life) await(what string, done func() bool) {
	l.t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.NewTimer(30*time.Second)
	defer tick.Stop()
	defer end.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end.C:
			l.t.Fatal("still not: " + what)
		}
	}
}

func (l *life) swept() {
	l.t.Helper()
	l.await("swept", func() bool {
		got, err := sweep.Expire(l.t.Context(), l.db.Pool, 10, runs.Retry{MaxAttempts: attempts})
		l.must(err)
		return len(got) == 1
	})
}

func (l *life) lapsed() {
	l.t.Helper()
	l.await("lapsed", func() (yes bool) {
		l.must(l.db.Pool.QueryRow(l.t.Context(), `SELECT lease_expires_at < clock_timestamp() FROM ops.matter_frame_jobs WHERE matter_id = $1`, l.key.Matter).Scan(&yes))
		return yes
	})
}

// live meets every step that leaves a trace in the tables.
func (l *life) live() {
	l.t.Helper()
	ctx := l.t.Context()
	l.demand(2)
	a := l.claim(time.Minute)
	_, err := jobs.Renew(ctx, l.db.Pool, []jobs.Claim{a}, time.Minute)
	l.must(err)
	l.demand(3)
	l.must(l.land(a)) // with a follow-up
	zombie := l.claim(time.Millisecond)
	l.swept()
	b := l.claim(time.Minute)
	if err := l.land(zombie); !errors.Is(err, runs.ErrFenced) {
		l.t.Fatalf("a zombie landed: %v", err)
	}
	l.must(runs.NoteRefused(ctx, l.db.Pool, zombie.Token.Run, true))
	l.fail(b, false)
	_, err = runs.Release(ctx, l.db.Pool, l.claim(time.Minute), runs.Failure{Kind: "stop", Text: "stop"}, 0)
	l.must(err)
	l.fail(l.claim(time.Minute), false) // the third: parked
	l.demand(1)                         // revives
	slow := l.claim(time.Millisecond)
	l.lapsed()
	l.must(l.land(slow))
	l.demand(1)
	l.fail(l.claim(time.Minute), true) // for good: parked
	l.demand(1)
	l.must(l.land(l.claim(time.Minute)))
}

func recorded(t *testing.T, db *pgtest.DB) []history.Change {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), history.ReadSQL)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	changes, err := history.Parse(lines)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func lived(t *testing.T) []history.Change {
	t.Helper()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), history.RecordSQL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		(&life{t, db, rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}).live()
	}
	db.CheckLedger(t)
	return recorded(t, db)
}

// Every step that the code takes is a step of the model, and each kind is seen.
func TestEveryStepIsOfTheModel(t *testing.T) {
	t.Parallel()
	changes := lived(t)
	report, err := history.Check(changes, history.Options{Attempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	for _, word := range []string{
		specs.LedgerClaims.String(), specs.LedgerRenews.String(), specs.LedgerLands.String(), specs.LedgerFails.String(), specs.LedgerGivesUp.String(),
		specs.LedgerReleases.String(), specs.LedgerSweeps.String(), specs.LedgerDemand.String(), specs.LedgerLapses.String(),
		history.LateRefused, history.FollowUps, history.LapsedLands, history.Parked, history.Revived,
	} {
		if report.Counts[word] < 2 {
			t.Errorf("%s: %d", word, report.Counts[word])
		}
	}
	// the same history of a fleet that was told otherwise
	if _, err := history.Check(changes, history.Options{Attempts: attempts - 1}); err == nil {
		t.Error("a job that is not parked in time is a step of the model")
	}
}

// Each lie is seen where it is told, and nowhere else, and the story says so.
func TestForgeriesAreSeenThrough(t *testing.T) {
	t.Parallel()
	changes := lived(t)
	for _, f := range history.Forgeries() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			told := 0
			for ; ; told++ {
				forged, n, ok := f.Forge(changes, told)
				if !ok {
					break
				}
				_, err := history.Check(forged, history.Options{Attempts: attempts})
				var no *history.NoStep
				if !errors.As(err, &no) || no.N != n || !strings.Contains(no.Story, "\n") {
					t.Errorf("told of change %d: %v", n, err)
				}
			}
			if told < 2 {
				t.Errorf("told %d times in two lives", told)
			}
		})
	}
	if _, err := history.Check(changes, history.Options{Attempts: attempts}); err != nil {
		t.Errorf("the true history was changed: %v", err)
	}
}
