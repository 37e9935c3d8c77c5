package authority_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// journal is what the old writer writes without end: a row a decision.
const journal = `
CREATE TABLE public.legacy_journal (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, matter_id uuid NOT NULL, how text NOT NULL);
GRANT SELECT, INSERT ON public.legacy_journal TO `

// oldWays are how old programs write: none of them asks for more than it needs.
func oldWays() map[string][]string {
	insert := `INSERT INTO public.legacy_journal (matter_id, how) VALUES ('{matter}', '{how}')`
	return map[string][]string{
		"raw":        {insert},
		"savepoints": {`BEGIN`, `SAVEPOINT a`, insert, `ROLLBACK TO a`, insert, `RELEASE a`, `COMMIT`},
		"admitted":   {`BEGIN`, `SELECT ops.admit_matter('{matter}', 'old')`, insert, `COMMIT`},
		"immediate":  {`BEGIN`, insert, `SET CONSTRAINTS ALL IMMEDIATE`, `COMMIT`},
	}
}

// play writes in one way; committed tells whether its row is there for good.
func play(ctx context.Context, conn *pgx.Conn, matter, how string, statements []string) (committed bool, err error) {
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, strings.NewReplacer("{matter}", matter, "{how}", how).Replace(sql)); err != nil {
			if conn.PgConn().TxStatus() != 'I' {
				_, rollback := conn.Exec(ctx, `ROLLBACK`)
				if rollback != nil {
					return false, rollback
				}
			}
			return false, err
		}
	}
	return true, nil
}

// Rows of the old epoch, counted when the scope is sealed, are all that there ever are:
// whatever writes, and however often authority goes there and back.
func TestNoRowComesLate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	exec(t, s.Pool, journal+s.oldRole)
	if err := s.c.Guard(t.Context(), authority.Guard{Table: "public.legacy_journal", Key: "matter_id", Writer: "old"}); err != nil {
		t.Fatal(err)
	}
	s.mustWrite(t, s.key, `{"n": 1}`)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var accepted atomic.Int64
	for range 2 {
		for how, statements := range oldWays() {
			writers.Go(func() { s.scribble(ctx, t, how, statements, &accepted) })
		}
	}
	defer writers.Wait()
	defer stop()
	for range 10 {
		before := accepted.Load()
		id := s.planned(t, func(m *authority.Move) { m.Grace = time.Duration(1+rand.N(50)) * time.Millisecond })
		s.until(t, id, "sealed")
		const count = `SELECT count(*) FROM public.legacy_journal WHERE ops.matter_bucket(matter_id) = ops.matter_bucket($1)`
		sealed := value[int64](t, s.Pool, count, s.key.Matter)
		if ch, err := s.c.Cross(t.Context(), id, s.heads); err != nil || ch.Outcome != "advanced" {
			t.Fatalf("%+v, %v", ch, err)
		}
		if after := value[int64](t, s.Pool, count, s.key.Matter); after != sealed {
			t.Fatalf("%d rows when sealed, %d after the crossing", sealed, after)
		}
		s.back(t, id)
		eventually(t, "somebody is let in again after the way back", func() bool { return accepted.Load() > before })
		if after := value[int64](t, s.Pool, count, s.key.Matter); after < sealed {
			t.Fatal("rows went")
		}
	}
}

// scribble writes in one way until ctx ends. Only a refusal by the fence is no failure.
func (s *stage) scribble(ctx context.Context, t *testing.T, how string, statements []string, accepted *atomic.Int64) {
	conn, err := pgx.Connect(ctx, s.As(t, s.oldRole))
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("%s: %v", how, err)
		}
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		committed, err := play(ctx, conn, s.key.Matter.String(), how, statements)
		if committed {
			accepted.Add(1)
		}
		if state := pg.SQLState(err); err != nil && ctx.Err() == nil && state != "RF503" && state != "RF409" {
			t.Errorf("%s: %v", how, err)
			return
		}
	}
}

// However many write without a pause, a closing ends by its deadline: nobody who closes
// is starved by those who are let in.
func TestManyWritersDoNotStarveAClosing(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_connections": "150"}})
	s := newStageOn(t, pgtest.NewOn(t, c), func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) })
	exec(t, s.Pool, journal+s.oldRole)
	if err := s.c.Guard(t.Context(), authority.Guard{Table: "public.legacy_journal", Key: "matter_id", Writer: "old"}); err != nil {
		t.Fatal(err)
	}
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil) // with a minute
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	accepted := make([]atomic.Int64, 64)
	for i := range accepted {
		writers.Go(func() { s.scribble(ctx, t, "admitted", oldWays()["admitted"], &accepted[i]) })
	}
	defer writers.Wait()
	defer stop()
	for i := range accepted {
		eventually(t, "everybody has been let in", func() bool { return accepted[i].Load() > 0 })
	}
	ch, err := s.c.Cross(t.Context(), id, nil)
	if err != nil || ch.Outcome != "advanced" {
		t.Fatalf("%+v, %v", ch, err)
	}
	t.Logf("%d writers, a pause of %s", len(accepted), ch.MeasuredPause)
}
