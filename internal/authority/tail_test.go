package authority_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// What the commit refuses of a sealed scope, whoever writes and however: by raw SQL, in
// one transaction.
func TestTheCommitJudgesRawSQL(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_prepared_transactions": "4"}})
	s := newStageOn(t, pgtest.NewOn(t, c), func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) })
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.until(t, s.planned(t, nil), "sealed")
	update := `UPDATE public.legacy_briefs SET brief = '{"late": 1}' WHERE matter_id = '` + s.key.Matter.String() + `';`
	elsewhere := `UPDATE public.legacy_briefs SET matter_id = gen_random_uuid() WHERE matter_id = '` + s.key.Matter.String() + `';`
	for what, attack := range map[string]struct{ sql, state string }{
		"an update":                        {`BEGIN;` + update + `COMMIT;`, "RF503"},
		"without a transaction":            {update, "RF503"},
		"a delete":                         {`DELETE FROM public.legacy_briefs;`, "RF503"},
		"a row moved out of the scope":     {elsewhere, "RF503"},
		"in a savepoint":                   {`BEGIN; SAVEPOINT a;` + update + `RELEASE a; COMMIT;`, "RF503"},
		"after a savepoint was given up":   {`BEGIN; SAVEPOINT a;` + update + `ROLLBACK TO a;` + update + `COMMIT;`, "RF503"},
		"made immediate":                   {`BEGIN; SET CONSTRAINTS ALL IMMEDIATE;` + update + `COMMIT;`, "RF503"},
		"made immediate in a savepoint":    {`BEGIN;` + update + `SAVEPOINT a; SET CONSTRAINTS ALL IMMEDIATE;`, "RF503"},
		"as a replica":                     {`BEGIN; SET LOCAL session_replication_role = replica;` + update + `COMMIT;`, "RF503"},
		"a truncate as a replica":          {`BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE public.legacy_briefs; COMMIT;`, "23514"},
		"a prepared transaction":           {`BEGIN;` + update + `PREPARE TRANSACTION 'late';`, "RF503"},
		"under REPEATABLE READ":            {`BEGIN ISOLATION LEVEL REPEATABLE READ;` + update + `COMMIT;`, "RF412"},
		"under SERIALIZABLE":               {`BEGIN ISOLATION LEVEL SERIALIZABLE;` + update + `COMMIT;`, "RF412"},
		"admission":                        {`SELECT ops.admit('` + s.scope + `', 'old')`, "RF503"},
		"a frame imported beyond the seal": {`SELECT ops.import_frame('` + s.key.Firm.String() + `', '` + s.key.Matter.String() + `', 1000, '{}', sha256('x'), '1', '1')`, "RF409"},
	} {
		conn, err := pgx.Connect(t.Context(), s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		// to be a replica is a superuser's alone
		if !strings.Contains(attack.sql, "replica") && !strings.Contains(attack.sql, "import_frame") {
			exec(t, conn, `SET ROLE `+s.oldRole)
		}
		_, err = conn.Exec(t.Context(), attack.sql)
		wantState(t, what, err, attack.state)
		_ = conn.Close(t.Context())
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM public.legacy_briefs WHERE brief ? 'late'`); n != 0 {
		t.Errorf("%d rows were written all the same", n)
	}
}

// While the scope is open, who the writer is still matters.
func TestTheCommitKnowsItsWriter(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	wantState(t, "another role", s.write(t.Context(), s.Pool, s.key, `{"n": 2}`), "RF403")
	wantState(t, "the importer in the old writer's table", s.write(t.Context(), s.importer, s.key, `{"n": 2}`), "RF403")
	_, err := authority.Import(t.Context(), s.Pool, authority.Imported{Key: s.key, Sequence: 1, Frame: []byte(`{}`), SchemaVersion: "1", Builder: "1"})
	wantState(t, "an import by somebody else", err, "RF403")
	for sql, state := range map[string]string{
		`SELECT ops.admit($1, 'old', 2)`:    "RF409",
		`SELECT ops.admit($1, 'rail', 1)`:   "RF409",
		`SELECT ops.admit($1, 'nobody', 1)`: "RF409",
	} {
		_, err := s.old.Exec(t.Context(), sql, s.scope)
		wantState(t, sql, err, state)
	}
	if epoch := value[int64](t, s.old, `SELECT ops.admit($1, 'old')`, s.scope); epoch != 1 {
		t.Errorf("admitted under epoch %d", epoch)
	}
	// a transaction that was admitted under an epoch is not served under another
	there := s.cross(t)
	wantState(t, "the rail in the old writer's table", s.write(t.Context(), s.Pool, s.key, `{"n": 2}`), "RF409")
	tx := begin(t, s)
	s.pretends(t, tx)
	s.back(t, there.ID)
	wantState(t, "the commit of a transaction of epoch 1 under epoch 3", tx.Commit(t.Context()), "RF409")
}

// pretends writes as the old writer, as if it had been admitted under epoch 1.
func (s *stage) pretends(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), `SELECT set_config('rail.admitted', $1 || '=1', true)`, s.scope); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), tx, s.key, `{"stale": 1}`); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, s *stage) pgx.Tx {
	t.Helper()
	tx, err := s.old.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// Who was admitted before the closing finishes; the drain waits for that, and no longer
// than its grace.
func TestTheDrainWaitsForTheAdmitted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Grace = time.Minute })
	tx := begin(t, s)
	if _, err := tx.Exec(t.Context(), `SELECT ops.admit($1, 'old')`, s.scope); err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Close(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() {
		_, err := s.c.Drain(t.Context(), id)
		drained <- err
	}()
	s.waitsForLock(t, "a")
	if err := s.write(t.Context(), tx, s.key, `{"n": 2}`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("the admitted writer is refused: %v", err)
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	ch, err := s.c.Seal(t.Context(), id)
	if err != nil || ch.Phase != "sealed" || len(ch.Blockers) > 0 {
		t.Fatalf("%+v, %v", ch, err)
	}
	if rows, err := s.legacy(t.Context(), s.scope); err != nil || *ch.FinalSequence != rows[0].Revision {
		t.Errorf("sealed at %d, the newest is %d", *ch.FinalSequence, rows[0].Revision)
	}
}

// A writer slower than the grace is named as in the way, and refused at its commit.
func TestASlowWriterIsNamedAndRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Grace = 10 * time.Millisecond })
	tx := begin(t, s)
	if _, err := tx.Exec(t.Context(), `SELECT ops.admit($1, 'old')`, s.scope); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), tx, s.key, `{"slow": 1}`); err != nil {
		t.Fatal(err)
	}
	ch, err := s.c.Cross(t.Context(), id, nil)
	if err != nil || ch.Outcome != "advanced" || len(ch.Blockers) == 0 || ch.Blockers[0].Kind != "transaction" || ch.Blockers[0].Role != s.oldRole {
		t.Fatalf("%+v, %v", ch, err)
	}
	wantState(t, "the slow writer's commit", tx.Commit(t.Context()), "RF409")
	sums, err := authority.Blockers(t.Context(), s.Pool)
	if err != nil || len(sums) == 0 || sums[0].Closings != 1 {
		t.Errorf("%+v, %v", sums, err)
	}
}

// waitsForLock waits until somebody waits for lock A or B of the scope.
func (s *stage) waitsForLock(t *testing.T, lock string) {
	t.Helper()
	eventually(t, "somebody waits for lock "+lock, func() bool {
		return value[int64](t, s.Pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		    AND (classid::bigint << 32 | objid::bigint) = ops.fence_key($1, $2)`, lock, s.scope) > 0
	})
}

// A commit that a prepared transaction holds open keeps the seal from happening: the
// closing is taken back at its deadline, and the report says whose it was.
func TestAPreparedTransactionIsNamed(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_prepared_transactions": "4"}})
	s := newStageOn(t, pgtest.NewOn(t, c), func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) })
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, func(m *authority.Move) { m.Grace, m.Deadline = 10*time.Millisecond, 300*time.Millisecond })
	conn, err := s.old.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`BEGIN`, `UPDATE public.legacy_briefs SET brief = '{"n": 2}'`, `PREPARE TRANSACTION 'held'`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ch, err := s.c.Cross(t.Context(), id, nil)
	if err != nil || ch.Outcome != "aborted" {
		t.Fatalf("%+v, %v", ch, err)
	}
	named := false
	for _, b := range ch.Blockers {
		named = named || (b.Kind == "prepared" && b.GID == "held")
	}
	if !named {
		t.Errorf("nobody names the prepared transaction: %+v", ch.Blockers)
	}
	s.wantFence(t, "open", "old", 1)
	if _, err := conn.Exec(t.Context(), `COMMIT PREPARED 'held'`); err != nil {
		t.Errorf("what was judged before is not kept: %v", err)
	}
}

// The rail's own frames are judged at the commit too, whoever inserts them.
func TestAFrameIsJudgedAtItsCommit(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	k := rail.Key{Firm: rail.NewUUID(), Matter: s.key.Matter}
	s.mustWrite(t, k, `{"n": 1}`)
	// a landing that does not ask beforehand
	exec(t, s.Pool, `CREATE OR REPLACE FUNCTION ops.fence_check(bucket smallint, epoch bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true'`)
	exec(t, s.Pool, `CREATE OR REPLACE FUNCTION ops.buckets_elsewhere() RETURNS smallint[] LANGUAGE sql STABLE AS $$ SELECT '{}'::smallint[] $$`)
	won, err := s.build(t, k)
	if wantState(t, "the landing", err, "RF409"); !won {
		t.Fatal("nothing was claimed")
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.matter_frames`); n != 0 {
		t.Errorf("%d frames of the rail while the old writer decides", n)
	}
}
