package authority_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// calls is a verb that is one statement.
func calls(t *testing.T, sql string, args ...any) verb {
	return func(c authority.Controller) (authority.Change, error) {
		_, err := c.DB.Exec(t.Context(), sql, args...)
		return authority.Change{}, err
	}
}

// Under another isolation level a verb would judge, and a seal would read the end, as of
// before it waited.
func TestAVerbReadsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil)
	conn := s.session(t)
	exec(t, conn, `SET default_transaction_isolation = 'repeatable read'`)
	defer exec(t, conn, `RESET default_transaction_isolation`)
	_, err := s.controller(conn).Close(t.Context(), id)
	wantState(t, "a close under REPEATABLE READ", err, "RF412")
	s.wantFence(t, "open", "old", 1)
}

// A seal holds every commit of its scope back: it does not wait for a row longer than
// the closing lasts.
func TestASealDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Deadline = 2 * time.Second })
	s.until(t, id, "drained")
	conn := s.session(t)
	exec(t, conn, `BEGIN`)
	exec(t, conn, `SELECT 1 FROM ops.write_fences WHERE scope = $1 FOR UPDATE`, s.scope)
	defer exec(t, conn, `ROLLBACK`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := s.c.Seal(ctx, id)
	wantState(t, "a seal while somebody holds the fence", err, "55P03")
}

// Two calls of one plan are one plan.
func TestOnePlanTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Budget: time.Minute}
	plan := func(c authority.Controller) (authority.Change, error) { return c.Plan(t.Context(), m) }
	one, two := s.interleaved(t, plan, plan)
	if one.err != nil || two.err != nil || !two.PlannedAt.Equal(one.PlannedAt) {
		t.Errorf("%v, %v", one.err, two.err)
	}
}

// Of a plan and the retirement of its writer one wins; nobody who is retired is given a
// scope, by a plan or to begin with.
func TestAPlanMeetsARetirement(t *testing.T) {
	t.Parallel()
	for _, planFirst := range []bool{true, false} {
		s := newStage(t)
		exec(t, s.Pool, `SELECT ops.register_writer('third', 'external', ARRAY[$1], NULL, NULL, 't', 't')`, s.oldRole)
		plan := calls(t, `SELECT ops.plan_change($1, $2, 'third', NULL, '{}', '{}', 't', 't')`, rail.NewUUID(), s.scope)
		retire := calls(t, `SELECT ops.retire_writer('third', 't', 't')`)
		if planFirst {
			one, two := s.interleaved(t, plan, retire)
			if s.wantRefusal(t, two.err, "retire_has_open_changes"); one.err != nil {
				t.Error(one.err)
			}
			continue
		}
		one, two := s.interleaved(t, retire, plan)
		if s.wantRefusal(t, two.err, "change_needs_another_writer"); one.err != nil {
			t.Error(one.err)
		}
		_, err := s.c.Configure(t.Context(), []string{"fixture/new"}, "third")
		s.wantRefusal(t, err, "fence_needs_a_writer")
	}
}

// Of two who configure a scope for different writers one is told; and who does it waits
// for the commits under way, which were judged without a fence.
func TestConfiguringMeetsOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	configure := func(writer string) verb {
		return calls(t, `SELECT ops.configure_fences('{fixture/new}', $1, 't', 't')`, writer)
	}
	one, two := s.interleaved(t, configure("rail"), configure("old"))
	if pg.SQLState(two.err) != "RF409" || pg.Constraint(two.err) != "fence_exists" || one.err != nil {
		t.Errorf("%v, then %v", one.err, two.err)
	}
	commit := calls(t, `SELECT pg_advisory_xact_lock_shared(ops.fence_key('b', 'fixture/newer'))`)
	one, two = s.interleaved(t, commit, calls(t, `SELECT ops.configure_fences('{fixture/newer}', 'old', 't', 't')`))
	if one.err != nil || two.err != nil {
		t.Error(one.err, two.err)
	}
}

// The indexes that a crossing needs may be made beforehand, without holding anybody up.
func TestTheIndexesMayBeThere(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, sql := range []string{
		`CREATE INDEX CONCURRENTLY outbox_landed ON ops.domain_event_outbox (bucket, seq) WHERE event_name = 'brief.landed'`,
		`CREATE INDEX CONCURRENTLY jobs_of_bucket ON ops.matter_frame_jobs (bucket)`,
		`CREATE INDEX CONCURRENTLY frames_of_bucket ON ops.matter_frames (ops.matter_bucket(matter_id))`,
		`SELECT ops.configure_fences('{fixture/x}', 'rail', 't', 't')`,
	} {
		exec(t, db.Pool, sql)
	}
}

// A writer's rights go with its roles: to others when it is registered anew, and away
// when it is retired, though a role of its be gone.
func TestRightsFollowTheRoles(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	may := func(role string) bool {
		return value[bool](t, s.Pool, `SELECT has_function_privilege($1, 'ops.admit(text, text, bigint)', 'EXECUTE')`, role)
	}
	gone := s.oldRole + "_gone"
	exec(t, s.Pool, `CREATE ROLE `+gone)
	importer := s.oldRole + "_in"
	third := authority.Writer{Name: "third", Kind: "external", Roles: []string{importer}}
	for _, roles := range [][]string{{importer}, {gone}} {
		third.Roles = roles
		if err := s.c.RegisterWriter(t.Context(), third); err != nil {
			t.Fatal(err)
		}
	}
	if may(importer) || !may(gone) {
		t.Errorf("the former role may %v, the present one %v", may(importer), may(gone))
	}
	if _, err := s.importer.Exec(t.Context(), `SELECT * FROM ops.to_export(NULL, 1)`); err != nil {
		t.Errorf("what another writer's role may is gone as well: %v", err)
	}
	exec(t, s.Pool, `DROP OWNED BY `+gone)
	exec(t, s.Pool, `DROP ROLE `+gone)
	if _, err := s.c.RetireWriter(t.Context(), "third", nil); err != nil {
		t.Error(err)
	}
}

// A restore closes what a lost controller left half closed, too.
func TestARestoreClosesWhatNobodyOwns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil)
	s.until(t, id, "closing")
	exec(t, s.Pool, `UPDATE ops.write_fence_changes SET phase = 'aborted', outcome = 'aborted' WHERE change_id = $1`, id)
	if n, err := s.c.CloseRestored(t.Context()); n != 64 || err != nil {
		t.Errorf("closed %d, %v", n, err)
	}
	s.wantFence(t, "sealed", "old", 1)
}

// A matter that was purged and begins anew lands frames that the old side was told of
// before, by number.
func TestAPurgedMatterIsToldOfAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cross(t)
	for range 2 {
		if won, err := s.build(t, s.key); !won || err != nil {
			t.Fatal(won, err)
		}
		exec(t, s.importer, `SELECT ops.note_exported(array_agg(seq)) FROM ops.to_export(NULL, 100)`)
		exec(t, s.Pool, `SELECT ops.purge_matter($1, $2, 't', 't')`, s.key.Firm, s.key.Matter)
	}
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Fatal(won, err)
	}
	if n := len(s.toExport(t)); n != 1 {
		t.Errorf("%d frames are to be exported", n)
	}
}

// A shadow that was built while its matter was purged is not kept.
func TestNoShadowOfAPurgedMatter(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.imports(t, s.scope)
	keep := calls(t, `SELECT ops.keep_shadow($1, $2, 1, '{}', sha256('x'), '1', '1', 'none', NULL, NULL)`, s.key.Firm, s.key.Matter)
	one, two := s.interleaved(t, calls(t, `SELECT ops.purge_matter($1, $2, 't', 't')`, s.key.Firm, s.key.Matter), keep)
	if one.err != nil || two.err != nil {
		t.Error(one.err, two.err)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.shadow_frames`); n != 0 {
		t.Errorf("%d shadows of a purged matter", n)
	}
}

// Drills are left out of the watches.
func TestDrillsAreNotWatched(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.scope = "fixture/drill"
	if _, err := s.c.Configure(t.Context(), []string{s.scope}, "old"); err != nil {
		t.Fatal(err)
	}
	exec(t, s.Pool, `SELECT ops.plan_change($1, $2, 'rail', NULL, '{}', '{}', 't', 't'), ops.play_crossing($1, 't')`, rail.NewUUID(), s.scope)
	s.wantFence(t, "open", "rail", 2)
	exec(t, s.Pool, `SELECT ops.note_evidence($1, 'late_fact', 'old', 1, 5, '{}')`, s.scope)
	if got, err := authority.Readings(t.Context(), s.Pool, time.Minute); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Everybody who was in the way of a closing is named at its end, once each: who was too
// slow for the drain, whose commit held the seal up, and facts that were not sent on.
func TestEverybodyInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t).ID
	s.GrantRoles(t)
	exec(t, s.Pool, `GRANT SELECT ON public.legacy_briefs TO rail_owner`)
	exec(t, s.Pool, `UPDATE ops.ledger SET publishing = 'required'`)
	operator := authority.Controller{DB: s.PoolAs(t, "rail_operator"), Actor: s.c.Actor}
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Fatal(won, err)
	}
	back := s.planBack(t, there)
	slow := s.holdsShared(t, "a")
	if ch, err := operator.Close(t.Context(), back); err != nil || ch.Phase != "closing" {
		t.Fatal(ch.Phase, err)
	}
	if ch, err := operator.Drain(t.Context(), back); err != nil || ch.Phase != "drained" {
		t.Fatal(ch.Phase, err)
	}
	exec(t, slow, `ROLLBACK`)
	if ch, err := operator.Seal(t.Context(), back); err != nil || ch.Phase != "sealed" {
		t.Fatal(ch.Phase, err)
	}
	s.holdsShared(t, "b")
	ch, err := operator.Abort(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	for what, named := range map[string]func(authority.Blocker) bool{
		"who was admitted": func(b authority.Blocker) bool { return b.Lock == "a" && b.Role == s.oldRole },
		"who commits": func(b authority.Blocker) bool {
			return b.Lock == "b" && b.State == "idle in transaction" && b.Since != ""
		},
		"what is not sent on":  func(b authority.Blocker) bool { return b.Kind == "publication" && b.Facts == 1 },
		"nothing that was not": func(b authority.Blocker) bool { return len(ch.Blockers) == 3 },
	} {
		if !slices.ContainsFunc(ch.Blockers, named) {
			t.Errorf("not named: %s in %+v", what, ch.Blockers)
		}
	}
}

// holdsShared is a transaction of the old writer that holds a lock of the scope.
func (s *stage) holdsShared(t *testing.T, lock string) *pgxpool.Conn {
	t.Helper()
	conn, err := s.old.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = conn.Exec(context.WithoutCancel(t.Context()), `ROLLBACK`)
		conn.Release()
	})
	key := value[int64](t, s.Pool, `SELECT ops.fence_key($1, $2)`, lock, s.scope)
	exec(t, conn, `BEGIN`)
	exec(t, conn, `SELECT pg_advisory_xact_lock_shared($1)`, key)
	return conn
}
