package authority_test

import (
	"context"
	"errors"
	"os"
	process "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// mortal is the database of a controller that is killed at its n-th statement: before
// it is sent, or when it has committed and nothing of its reply was read.
type mortal struct {
	*pgxpool.Pool
	left  int // statements until then; below zero for never
	heard bool
}

func (m *mortal) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if m.left--; m.left != 0 {
		return m.Pool.Query(ctx, sql, args...)
	}
	if m.heard {
		rows, err := m.Pool.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		rows.Close() // waits for the server to be done with it
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(errors.New("still alive"), syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

// deathVar says to a process of this test what it is: dsn, change, statement, heard.
const deathVar = "RAIL_TEST_CONTROLLER"

// A process of its own that crosses, and is killed where it is told to be.
func TestControllerProcess(t *testing.T) {
	told := strings.Split(os.Getenv(deathVar), "|")
	if len(told) != 4 {
		return // not such a process
	}
	pool, err := pgxpool.New(t.Context(), told[0])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	id, err := rail.ParseUUID(told[1])
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(told[2])
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{DB: &pgtest.DB{Pool: pool}}
	c := authority.Controller{DB: &mortal{Pool: pool, left: left, heard: told[3] == "heard"}, Actor: authority.Actor{Name: "process", Reason: "a test"}}
	if ch, err := c.Cross(t.Context(), id, s.heads); err != nil || ch.Outcome == "" {
		t.Fatalf("%+v, %v", ch, err)
	}
}

// process crosses in a process of its own, and tells whether it was killed.
func (s *stage) process(t *testing.T, id rail.UUID, left int, heard string) (killed bool) {
	t.Helper()
	cmd := process.CommandContext(t.Context(), os.Args[0], "-test.run=^TestControllerProcess$")
	cmd.Env = append(os.Environ(), deathVar+"="+strings.Join([]string{s.DSN, id.String(), strconv.Itoa(left), heard}, "|"))
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed = ok && status.Signaled() && status.Signal() == syscall.SIGKILL; err != nil && !killed {
		t.Fatalf("%v: %s", err, out)
	}
	return killed
}

// A controller's process is killed before each of its statements, and after each has
// committed and before it heard so. Another one with the same id brings the crossing to
// its one end, and of what was accepted nothing is lost.
func TestAKilledControllerIsSucceeded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	deaths := map[string]int{}
	for _, heard := range []string{"unsent", "heard"} {
		for left, killed := 1, true; killed; left++ {
			s.mustWrite(t, s.key, `{"n": `+strconv.Itoa(left)+`}`)
			id := s.planned(t, nil)
			if killed = s.process(t, id, left, heard); killed {
				deaths[heard+" "+s.fence(t).State]++
				s.oneSide(t, id)
				if s.process(t, id, -1, "") {
					t.Fatal("nobody told the second to die")
				}
			}
			ch, err := authority.ChangeOf(t.Context(), s.Pool, id)
			if err != nil || ch.Outcome != "advanced" {
				t.Fatalf("%s, statement %d: %+v, %v", heard, left, ch, err)
			}
			s.nothingLost(t)
			s.back(t, id)
		}
	}
	t.Logf("killed with the scope: %v", deaths)
	for _, at := range []string{"unsent open", "unsent closing", "unsent sealed", "heard closing", "heard sealed", "heard open"} {
		if deaths[at] == 0 {
			t.Errorf("no process was killed %s", at)
		}
	}
}

// oneSide fails where both sides may write, or the fence does not fit its change.
func (s *stage) oneSide(t *testing.T, id rail.UUID) {
	t.Helper()
	f := s.fence(t)
	ch, err := authority.ChangeOf(t.Context(), s.Pool, id)
	if err != nil {
		t.Fatal(err)
	}
	if closed := ch.Outcome == "" && ch.Phase != "shadowed"; closed == (f.State == "open") || (f.Writer == "rail") != (ch.Outcome == "advanced") {
		t.Fatalf("change %s, and the fence %s under %s", ch.Phase, f.State, f.Writer)
	}
	won, err := s.build(t, s.key)
	if err != nil || won && (f.State != "open" || f.Writer != "rail") {
		t.Fatalf("the rail builds: %v, %v; the fence is %s under %s", won, err, f.State, f.Writer)
	}
	if f.Writer == "rail" {
		wantState(t, "the old writer beside the rail", s.write(t.Context(), s.old, s.key, `{}`), "RF409")
	}
}

// nothingLost compares what the old writer has with what was imported of it.
func (s *stage) nothingLost(t *testing.T) {
	t.Helper()
	if n := value[int64](t, s.Pool, `
SELECT count(*) FROM public.legacy_briefs b WHERE NOT EXISTS (
  SELECT 1 FROM ops.matter_frames f WHERE f.matter_id = b.matter_id AND f.source_sequence = b.revision AND f.frame = b.brief)`); n != 0 {
		t.Fatalf("%d Briefs of the old writer did not cross", n)
	}
}

// A controller that dies right after closing: the watchdog of any daemon opens the scope
// again, and a process that comes back with the same id finds that it has lost.
func TestAControllerKilledRightAfterClosing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Deadline = 1500 * time.Millisecond })
	const closing = 2 // the first statement reads the change
	if !s.process(t, id, closing, "heard") {
		t.Fatal("it lived")
	}
	if ch, err := authority.ChangeOf(t.Context(), s.Pool, id); err != nil || ch.ClosedAt == nil {
		t.Fatalf("it died before it closed: %+v, %v", ch, err)
	}
	s.watchdog(t, "a daemon")
	s.reopens(t)
	s.mustWrite(t, s.key, `{"n": 2}`)
	if s.process(t, id, -1, "") {
		t.Fatal("killed")
	}
	if ch, err := authority.ChangeOf(t.Context(), s.Pool, id); err != nil || ch.Outcome != "aborted" || ch.EndedBy == nil || *ch.EndedBy != "a daemon" {
		t.Errorf("%+v, %v", ch, err)
	}
	s.wantFence(t, "open", "old", 1)
}
