package authority_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// holdsLockA takes lock A as a drain does, and returns how to let go of it.
func (s *stage) holdsLockA(t *testing.T) (let func()) {
	t.Helper()
	conn := s.session(t)
	exec(t, conn, `BEGIN`)
	exec(t, conn, `SELECT pg_advisory_xact_lock(ops.fence_key('a', $1))`, s.scope)
	return func() { exec(t, conn, `ROLLBACK`) }
}

// later runs a question on a session of its own, once it waits for lock A.
func later[T any](t *testing.T, s *stage, ask func(*pgxpool.Conn) (T, error)) <-chan answered[T] {
	t.Helper()
	conn, got := s.session(t), make(chan answered[T], 1)
	go func() {
		v, err := ask(conn)
		got <- answered[T]{v, err}
	}()
	s.waitsForLock(t, "a")
	return got
}

// Who waited for a drain is told what became of the scope meanwhile, and not admitted on
// the word of before.
func TestAnAdmissionLooksAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil)
	let := s.holdsLockA(t)
	got := later(t, s, func(conn *pgxpool.Conn) (epoch int64, err error) {
		if _, err := conn.Exec(t.Context(), `SET ROLE `+s.oldRole); err != nil {
			return 0, err
		}
		err = conn.QueryRow(t.Context(), `SELECT ops.admit($1, 'old')`, s.scope).Scan(&epoch)
		_, reset := conn.Exec(context.WithoutCancel(t.Context()), `RESET ROLE`)
		if err == nil {
			err = reset
		}
		return epoch, err
	})
	s.until(t, id, "closing")
	let()
	wantState(t, "an admission that waited", (<-got).err, "RF503")
}

// While a drain waits, nobody else is let in behind it, nor made to wait.
func TestADrainIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Grace = time.Minute })
	let := s.holdsLockA(t)
	s.until(t, id, "closing")
	drained := later(t, s, func(conn *pgxpool.Conn) (authority.Change, error) { return s.controller(conn).Drain(t.Context(), id) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.old.Exec(ctx, `SELECT ops.admit($1, 'old')`, s.scope)
	wantState(t, "an admission beside a drain", err, "RF503")
	let()
	if d := <-drained; d.err != nil || d.value.Phase != "drained" || len(d.value.Blockers) > 0 {
		t.Errorf("%+v", d)
	}
}

// A landing asks the fence under which epoch its claim was made: it may land until the
// scope is sealed, and who waited for a drain is told what is true then.
func TestALandingAsksTheFence(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	check := func(conn *pgxpool.Conn) (yes bool, err error) {
		err = conn.QueryRow(t.Context(), `SELECT ops.fence_check(ops.matter_bucket($1), 2)`, s.key.Matter).Scan(&yes)
		return yes, err
	}
	wants := func(when string, want bool) {
		t.Helper()
		if yes, err := check(s.session(t)); err != nil || yes != want {
			t.Fatalf("%s: %v, %v", when, yes, err)
		}
	}
	wants("the old writer's", false)
	there := s.cross(t).ID
	wants("its own epoch", true)
	if value[bool](t, s.Pool, `SELECT ops.fence_check(ops.matter_bucket($1), 1)`, s.key.Matter) {
		t.Error("an earlier epoch lands")
	}
	back := s.planBack(t, there)
	let := s.holdsLockA(t)
	got := later(t, s, check)
	s.until(t, back, "closing")
	wants("closing", true)
	s.until(t, back, "sealed") // the grace is over before whoever holds lock A is
	wants("sealed", false)
	let()
	if a := <-got; a.err != nil || a.value {
		t.Errorf("waited while the scope was sealed: %+v", a)
	}
}

// The drain waits for what the rail has under way, and loses none of it.
func TestTheDrainWaitsForTheRail(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*testing.T, *stage, *pgxpool.Conn){
		"a landing": func(t *testing.T, s *stage, conn *pgxpool.Conn) {
			claim := s.claims(t)
			exec(t, conn, `BEGIN`)
			if _, err := runs.Land(t.Context(), conn.Conn(), landing(claim)); err != nil {
				t.Fatal(err)
			}
		},
		"a submission": func(t *testing.T, s *stage, conn *pgxpool.Conn) {
			exec(t, conn, `BEGIN`)
			if a, err := authority.Submit(t.Context(), conn, s.intent("p")); err != nil || a.Verdict != authority.Accepted {
				t.Fatalf("%+v, %v", a, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"n": 1}`)
			back := s.planBackWith(t, s.cross(t).ID, time.Minute)
			conn := s.session(t)
			does(t, s, conn)
			s.until(t, back, "closing")
			drained := later(t, s, func(conn *pgxpool.Conn) (authority.Change, error) { return s.controller(conn).Drain(t.Context(), back) })
			exec(t, conn, `COMMIT`)
			if d := <-drained; d.err != nil || d.value.Phase != "drained" || len(d.value.Blockers) > 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// submitted is an intent that is submitted beside something that has not committed.
func (s *stage) submitted(t *testing.T, first func(*pgxpool.Conn) error, i authority.Intent) authority.Answer {
	t.Helper()
	got := beside(t, s, first, func(conn *pgxpool.Conn) (authority.Answer, error) { return authority.Submit(t.Context(), conn, i) })
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.value
}

// One id means one thing, also where two come with it at once, of two matters.
func TestOneIntentOfTwoMatters(t *testing.T) {
	t.Parallel()
	s := crossed(t)
	i := s.intent("p")
	other := i
	for other.Key.Matter = rail.NewUUID(); scopeOf(other.Key) != s.scope; {
		other.Key.Matter = rail.NewUUID()
	}
	two := s.submitted(t, func(conn *pgxpool.Conn) error {
		a, err := authority.Submit(t.Context(), conn, i)
		if err != nil || a.Verdict != authority.Accepted {
			t.Errorf("%+v, %v", a, err)
		}
		return err
	}, other)
	if two.Verdict != authority.OtherDigest || two.Matter != i.Key.Matter {
		t.Errorf("%+v", two)
	}
	if n := value[int64](t, s.Pool, `SELECT sum(demands_owed) FROM ops.matter_frame_jobs`); n != 1 {
		t.Errorf("%d demands of one id", n)
	}
}

// An intent that saw a revision beside which another is being landed is judged by what
// is there then.
func TestAnIntentMeetsALanding(t *testing.T) {
	t.Parallel()
	s := crossed(t)
	claim := s.claims(t)
	seen := value[int64](t, s.Pool, `SELECT ops.matter_revision($1, $2)`, s.key.Firm, s.key.Matter)
	i := s.intent("p")
	i.Expected = &seen
	two := s.submitted(t, func(conn *pgxpool.Conn) error {
		_, err := runs.Land(t.Context(), conn.Conn(), landing(claim))
		return err
	}, i)
	if two.Verdict != authority.Refused || two.Revision == seen {
		t.Errorf("%+v, and %d was seen", two, seen)
	}
}

// crossed is a stage whose scope is the rail's.
func crossed(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.cross(t)
	return s
}

func (s *stage) claims(t *testing.T) jobs.Claim {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), s.Pool, s.key, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	return got[0].Claim
}
