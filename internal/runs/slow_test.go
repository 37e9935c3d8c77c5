package runs_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
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

// stalling is a connection whose sender stops for good in the middle of a large
// frame, as a stopped process does.
type stalling struct {
	net.Conn
	sent    int
	stalled chan struct{} // closed when it stops
}

func (s *stalling) Write(b []byte) (int, error) {
	if s.sent += len(b); s.sent > 300<<10 {
		close(s.stalled)
		select {}
	}
	return s.Conn.Write(b)
}

// A worker that stalls while it sends a large frame holds nothing: others take its
// matter over and record demand, although no timeout of the server ends a COPY.
func TestAWorkerThatStallsInItsLandingHoldsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	c := mustClaim(t, db)
	cfg := db.Pool.Config().ConnConfig.Copy()
	stalled := make(chan struct{})
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &stalling{Conn: conn, stalled: stalled}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	pg.RegisterTypes(conn)
	l := landing(t, c.Claim, `{"pad":"`+strings.Repeat("x", 900<<10)+`"}`)
	ended := make(chan error, 1)
	go func() {
		_, err := runs.Land(context.WithoutCancel(t.Context()), conn, l)
		ended <- err
	}()
	select {
	case <-stalled:
	case err := <-ended:
		t.Fatalf("the landing ended: %v", err)
	}
	exec(t, db, `SET lock_timeout = '5s'`)
	demand(t, db, k, 1)
	expireLease(t, db, k)
	if got, err := runs.ClaimKey(t.Context(), db.Pool, k, rail.Standard, claimOptions()); err != nil || len(got) != 1 {
		t.Errorf("taken over: %v, %v", got, err)
	}
	exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'COPY%'`)
	db.CheckLedger(t)
}
