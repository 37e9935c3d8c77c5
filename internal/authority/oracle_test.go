package authority_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// What the oracle can find.
var (
	errLate     = errors.New("rows came late")
	errPosition = errors.New("the final sequence is not the last one")
	errStarved  = errors.New("nobody could close")
)

// An oracle moves authority to and fro between two old writers who write all the while,
// and compares what each had written when it was sealed with what is there later.
type oracle struct {
	*stage
	sides  [2]*side
	turn   int           // whose the scope is
	close  time.Duration // how long a closing may wait to begin
	last   map[int64]int64
	moved  int           // crossings
	given  int           // closings that were given back
	atMost time.Duration // how long to go on, zero for all
}

// A side is a writer, its journal, and what was counted when it was last sealed.
type side struct {
	writer, role, table string
	rows                int64
	sequence            int64
	epoch               int64         // of its rows since the scope is its own
	wrote               chan struct{} // somebody was let in
}

// journalOf is a guarded table. Its own deferred rule takes a while after the fence has
// judged: commits are under way for long enough to be met.
const journalOf = `
CREATE TABLE %[1]s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, matter_id uuid NOT NULL, how text NOT NULL, epoch bigint);
CREATE INDEX ON %[1]s (ops.matter_bucket(matter_id), id);
CREATE INDEX ON %[1]s (epoch);
GRANT SELECT, INSERT ON %[1]s TO %[2]s;
CREATE CONSTRAINT TRIGGER zz_rule AFTER INSERT ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.own_rule();`

const ownRule = `
CREATE FUNCTION public.own_rule() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(random() * 0.004); RETURN NULL; END $$`

// newOracle sets the fence up; altered is SQL that makes another one of it before.
func newOracle(t *testing.T, c *local.Cluster, altered string) *oracle {
	t.Helper()
	server := pgtest.NewOn(t, c)
	other := "rail_t_other_" + rail.NewUUID().String()[:8]
	exec(t, server.Pool, `CREATE ROLE `+other+` LOGIN`)
	o := &oracle{stage: newStageOn(t, server, func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) }), close: time.Minute, last: map[int64]int64{}}
	if altered != "" {
		exec(t, o.Pool, altered)
	}
	if err := o.c.RegisterWriter(t.Context(), authority.Writer{Name: "other", Kind: "external", Roles: []string{other}}); err != nil {
		t.Fatal(err)
	}
	exec(t, o.Pool, ownRule)
	o.sides = [2]*side{{writer: "old", role: o.oldRole, table: "public.journal_old", epoch: 1}, {writer: "other", role: other, table: "public.journal_other"}}
	for _, s := range o.sides {
		s.wrote = make(chan struct{}, 1)
		exec(t, o.Pool, fmt.Sprintf(journalOf, s.table, s.role))
		g := authority.Guard{Table: s.table, Key: "matter_id", Writer: s.writer, Sequence: "id", Epoch: "epoch"}
		if err := o.c.Guard(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// run has everybody write and crosses so often, or until something is found.
func (o *oracle) run(t *testing.T, crossings int, writing []scribbler) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, w := range writing {
		group.Go(func() { w.run(ctx, t) })
	}
	err := o.crossings(ctx, crossings)
	stop()
	group.Wait()
	for _, w := range writing {
		if how := w.finish(context.WithoutCancel(ctx)); how != nil {
			t.Errorf("%s: what was prepared stays: %v", w.how, how)
		}
	}
	if err == nil {
		err = o.everyEpoch(t.Context())
	}
	return err
}

func (o *oracle) crossings(ctx context.Context, n int) error {
	for begun := time.Now(); o.moved < n && (o.atMost == 0 || time.Since(begun) < o.atMost); {
		select { // the side whose the scope is has been let in
		case <-o.sides[o.turn].wrote:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := o.cross(ctx); err != nil {
			return fmt.Errorf("crossing %d: %w", o.moved+1, err)
		}
	}
	return nil
}

// cross closes and seals, counts under the lock of the seal, and either takes authority
// across or, now and then, gives it back.
func (o *oracle) cross(ctx context.Context) error {
	id, err := o.shadowed(ctx)
	if err != nil {
		return err
	}
	if err := o.closes(ctx, id); err != nil {
		return err
	}
	o.strike(ctx)
	if _, err := o.c.Drain(ctx, id); err != nil {
		return err
	}
	o.strike(ctx)
	ch, err := o.sealAndCount(ctx, id)
	if err != nil || ch.Phase != "sealed" {
		return errors.Join(err, o.giveBack(ctx, id))
	}
	o.strike(ctx)
	if err := o.check(ctx); err != nil || rand.N(20) == 0 {
		return errors.Join(err, o.giveBack(ctx, id))
	}
	if _, err := o.Pool.Exec(ctx, `SELECT ops.report_change($1, 0, sha256(''), '[]', interval '0')`, id); err != nil {
		return err
	}
	return o.advance(ctx, id)
}

func (o *oracle) advance(ctx context.Context, id rail.UUID) error {
	ch, err := o.c.Advance(ctx, id)
	if err != nil {
		return err
	}
	if ch.Outcome != "advanced" {
		return o.giveBack(ctx, id)
	}
	if _, err := o.c.Complete(ctx, id); err != nil {
		return err
	}
	from := o.sides[o.turn]
	var rows int64
	if err := o.Pool.QueryRow(ctx, `SELECT count(*) FROM `+from.table+` WHERE epoch = $1`, from.epoch).Scan(&rows); err != nil {
		return err
	}
	o.last[from.epoch] = rows
	o.turn, o.moved = 1-o.turn, o.moved+1
	o.sides[o.turn].epoch = *ch.ToEpoch
	return o.check(ctx, from)
}

// giveBack ends a closing under its old epoch: what was counted is a count no more.
func (o *oracle) giveBack(ctx context.Context, id rail.UUID) error {
	o.given++
	_, err := o.c.Abort(ctx, id)
	return err
}

// shadowed is a change that may close, with a short grace: many are slower.
func (o *oracle) shadowed(ctx context.Context) (rail.UUID, error) {
	id := rail.NewUUID()
	return id, o.bounded(ctx, func(db authority.DB) error {
		_, err := db.Exec(ctx, `SELECT ops.plan_change($1, $2, $3, NULL, jsonb_build_object('grace_ms', $4::integer, 'deadline_ms', 30000), '{}', 'test', 'a test')`,
			id, o.scope, o.sides[1-o.turn].writer, 1+rand.N(10))
		if err == nil {
			_, err = db.Exec(ctx, `SELECT ops.shadow_change($1, '{}', 'test', 'a test')`, id)
		}
		return err
	})
}

// together runs statements in one transaction.
func (o *oracle) together(ctx context.Context, do func(db authority.DB) error) error {
	conn, err := o.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
		return err
	}
	if err := do(conn); err != nil {
		_, rollback := conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
		return errors.Join(err, rollback)
	}
	_, err = conn.Exec(ctx, `COMMIT`)
	return err
}

// closes is a closing that does not wait for ever.
func (o *oracle) closes(ctx context.Context, id rail.UUID) error {
	return o.bounded(ctx, func(db authority.DB) error {
		_, err := authority.Controller{DB: db, Actor: o.c.Actor}.Close(ctx, id)
		return err
	})
}

// bounded is together, unless the writers keep a statement waiting: each verb takes the
// row of the fence.
func (o *oracle) bounded(ctx context.Context, do func(db authority.DB) error) error {
	err := o.together(ctx, func(db authority.DB) error {
		if _, err := db.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, o.close.Milliseconds())); err != nil {
			return err
		}
		return do(db)
	})
	if pg.SQLState(err) == "57014" && ctx.Err() == nil {
		return errStarved
	}
	return err
}

// sealAndCount counts in the seal's own transaction: under lock B.
func (o *oracle) sealAndCount(ctx context.Context, id rail.UUID) (ch authority.Change, err error) {
	err = o.together(ctx, func(db authority.DB) (err error) {
		if ch, err = (authority.Controller{DB: db, Actor: o.c.Actor}).Seal(ctx, id); err != nil || ch.Phase != "sealed" {
			return err
		}
		from := o.sides[o.turn]
		from.rows, _, err = count(ctx, db, from)
		from.sequence = *ch.FinalSequence
		return err
	})
	return ch, err
}

func count(ctx context.Context, db pg.DB, s *side) (rows, highest int64, err error) {
	err = db.QueryRow(ctx, `SELECT count(*), coalesce(max(id), 0) FROM `+s.table).Scan(&rows, &highest)
	return rows, highest, err
}

// check compares: both sides are sealed, or those that are named.
func (o *oracle) check(ctx context.Context, sealed ...*side) error {
	if len(sealed) == 0 {
		sealed = o.sides[:]
	}
	for _, s := range sealed {
		rows, highest, err := count(ctx, o.Pool, s)
		if err != nil {
			return err
		}
		if rows != s.rows {
			return fmt.Errorf("%s: %d rows when sealed, %d later: %w", s.table, s.rows, rows, errLate)
		}
		if rows > 0 && highest != s.sequence {
			return fmt.Errorf("%s: sealed at %d, the last is %d: %w", s.table, s.sequence, highest, errPosition)
		}
	}
	return nil
}

// everyEpoch counts once more, at the end of it all.
func (o *oracle) everyEpoch(ctx context.Context) error {
	for epoch, rows := range o.last {
		var now int64
		if err := o.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM public.journal_old WHERE epoch = $1) + (SELECT count(*) FROM public.journal_other WHERE epoch = $1)`, epoch).Scan(&now); err != nil {
			return err
		}
		if now != rows {
			return fmt.Errorf("epoch %d: %d rows when it ended, %d at the end of all: %w", epoch, rows, now, errLate)
		}
	}
	return nil
}

// strike ends a session of some writer, as an operator or a failover does.
func (o *oracle) strike(ctx context.Context) {
	if rand.N(3) == 0 {
		_, _ = o.Pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 ORDER BY random() LIMIT 1`, scribbles)
	}
}

// crossingsWanted is how often authority moves: some seconds' worth, or a campaign's.
func crossingsWanted() int {
	if os.Getenv("RAIL_TEST_LOAD") == "full" {
		return 5000
	}
	return 200
}

// gateTime is how long the gate waits for its crossings: on a busy machine there are
// fewer, and the log says how many. A campaign, zero, makes them all.
func gateTime() time.Duration {
	if os.Getenv("RAIL_TEST_LOAD") == "full" {
		return 0
	}
	return 90 * time.Second
}

func clusterOfOracles(t *testing.T) *local.Cluster {
	t.Helper()
	return pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_connections": "250", "max_prepared_transactions": "40"}})
}

// Rows of an epoch, counted under the lock of its seal, are all that there ever are,
// whatever writes and whoever is killed meanwhile.
func TestRowsOfAnEpochAreCountedOnce(t *testing.T) {
	t.Parallel()
	o := newOracle(t, clusterOfOracles(t), "")
	o.atMost = gateTime()
	writing := o.scribblers(t, allWays(), nil)
	if err := o.run(t, crossingsWanted(), writing); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crossings, %d closings given back; writes: %s", o.moved, o.given, told(writing))
	wantEveryWay(t, writing)
}

// The same by way of a pooler, where a session is another's after each transaction.
func TestRowsOfAnEpochThroughAPooler(t *testing.T) {
	t.Parallel()
	o := newOracle(t, clusterOfOracles(t), "")
	o.atMost = gateTime()
	writing := o.scribblers(t, allWays(), o.pooler(t))
	if err := o.run(t, crossingsWanted()/20, writing); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crossings through a pooler, %d closings given back; writes: %s", o.moved, o.given, told(writing))
	if o.moved == 0 {
		t.Error("authority never moved")
	}
}
