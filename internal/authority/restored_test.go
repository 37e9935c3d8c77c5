package authority_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// A backup goes back behind decisions that nobody remembers any more. One that was taken
// after a crossing holds its fence and its accepted intents as they were; one that was
// taken before holds an older fence. Neither can know which it is: every scope stays
// closed until a person opens it under an epoch that was never handed out.
func TestABackupGoesBackBehindACrossing(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{})
	s := newStageOn(t, pgtest.NewOn(t, c), func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) })
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.backup(t, c, "before")
	s.cross(t)
	intent := authority.Intent{ID: rail.NewUUID(), Key: s.key, Kind: authority.Regenerate, Digest: digestOf([]byte(`{}`))}
	told, err := authority.Submit(t.Context(), s.Pool, intent)
	if err != nil || told.Verdict != authority.Accepted {
		t.Fatalf("%+v, %v", told, err)
	}
	s.backup(t, c, "after")

	s.restore(t, c, "after")
	s.wantFence(t, "open", "rail", 2)
	if again, err := authority.Find(t.Context(), s.Pool, intent.ID); err != nil || again.Verdict != authority.Accepted || string(again.Result) != string(told.Result) {
		t.Errorf("the accepted intent came back as %+v, %v", again, err)
	}
	s.staysClosed(t, "rail", 2)
	s.opens(t, "rail", 3)
	s.CheckLedger(t)

	s.restore(t, c, "before")
	s.wantFence(t, "open", "old", 1) // what the backup believes
	s.staysClosed(t, "old", 1)
	s.opens(t, "rail", 4)
	wantState(t, "the old writer, after the restore", s.write(t.Context(), s.old, s.key, `{"n": 2}`), "RF409")
}

func (s *stage) backup(t *testing.T, c *local.Cluster, name string) {
	t.Helper()
	if err := c.Backup(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// restore goes back, and takes new sessions, as the old ones went with the server.
func (s *stage) restore(t *testing.T, c *local.Cluster, name string) {
	t.Helper()
	if err := c.Restore(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*pgxpool.Pool{s.Pool, s.old, s.importer} {
		pool.Reset()
	}
}

// staysClosed closes what came out of a backup: nobody writes, and no daemon opens it.
func (s *stage) staysClosed(t *testing.T, writer string, epoch int64) {
	t.Helper()
	for _, want := range []int{len(allScopes()), 0} {
		if n, err := s.c.CloseRestored(t.Context()); err != nil || n != want {
			t.Fatalf("%d scopes are closed, want %d: %v", n, want, err)
		}
	}
	exec(t, s.Pool, `SELECT ops.abort_overdue('a daemon')`)
	s.wantFence(t, "sealed", writer, epoch)
	if err := s.write(t.Context(), s.old, s.key, `{"late": 1}`); err == nil {
		t.Error("the old writer writes into a restored scope")
	}
	if won, err := s.build(t, s.key); won || err != nil {
		t.Errorf("the rail builds in a restored scope: %v, %v", won, err)
	}
	_, err := s.c.OpenRestored(t.Context(), s.scope, writer, epoch)
	s.wantRefusal(t, err, "restore_needs_a_later_epoch")
}

func (s *stage) opens(t *testing.T, writer string, epoch int64) {
	t.Helper()
	if ch, err := s.c.OpenRestored(t.Context(), s.scope, writer, epoch); err != nil || ch.Outcome != "advanced" {
		t.Fatalf("%+v, %v", ch, err)
	}
	s.wantFence(t, "open", writer, epoch)
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Errorf("the rail builds in what was opened for it: %v, %v", won, err)
	}
}
