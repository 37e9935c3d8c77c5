package runs_test

import (
	"context"
	"strings"
	"testing"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/runs"
)

// A frame that takes the database longer than a statement may gives its slot back in
// the end, and each try is told of.
func TestAFrameThatNeverLandsInTimeIsGivenUp(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		db := pgtest.New(t)
		exec(t, db, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$`)
		exec(t, db, `CREATE TRIGGER slow BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION slow()`)
		k := newKey()
		demand(t, db, k, 1)
		c := mustClaim(t, db)
		conn, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(t.Context(), `SET statement_timeout = '30ms'`); err != nil {
			t.Fatal(err)
		}
		l := landing(t, c.Claim, `{"pad":"`+strings.Repeat("x", pad)+`"}`)
		told := 0
		l.Failed = func(int, error) { told++ }
		_, err = runs.LandSettled(t.Context(), conn.Conn(), l, func(context.Context, int) {})
		if pg.SQLState(err) != "57014" || told != 10 {
			t.Errorf("after %d tries %v", told, err)
		}
		if s := status(t, db, k); s != "running" {
			t.Errorf("row is %s", s)
		}
		db.CheckLedger(t)
	})
}
