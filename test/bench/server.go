package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/migrations"
)

// bench holds what all measurements share.
type bench struct {
	plan       plan
	started    time.Time
	cluster    *local.Cluster
	dir        string // scripts for pgbench
	hand       string // path of pgbench
	largeMade  bool
	fencedMade bool
	// transactions of pgbench's last run
	transactionsByHand int64
	machine            string
	results            table
}

// Two databases that differ in their idle matters only; both have the same
// thousand firms.
const (
	small     = "idle_small"
	large     = "idle_large"
	smallIdle = 10_000
	firms     = 1000
)

// say reports progress on stderr.
func (b *bench) say(text string) {
	fmt.Fprintf(os.Stderr, "%5.1fs  %s\n", time.Since(b.started).Seconds(), text)
}

// start runs the server and fills the databases.
func (b *bench) start(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "briefrail-bench-"); err != nil {
		return err
	}
	b.say("starting PostgreSQL")
	b.cluster, err = local.Start(ctx, local.Options{Durable: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	if err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	if b.hand, err = findPgbench(b.cluster.Bin.Dir); err != nil {
		return errors.Join(err, b.close())
	}
	if err := b.fill(ctx); err != nil {
		return errors.Join(err, b.close())
	}
	return nil
}

// findPgbench looks beside the server's binaries, where they really are, and in
// the path.
func findPgbench(bin string) (string, error) {
	beside := filepath.Join(bin, "pgbench")
	if real, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres")); err == nil {
		beside = filepath.Join(filepath.Dir(real), "pgbench")
	}
	for _, candidate := range []string{beside, "pgbench"} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", errors.New("pgbench is missing: it comes with the server (Debian: apt-get install postgresql)")
}

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(b.cluster.Close(ctx), os.RemoveAll(b.dir))
}

// migrated makes a database with the ledger in it.
func (b *bench) migrated(ctx context.Context, name string) (*pgx.Conn, error) {
	if err := b.database(ctx, name, "template1"); err != nil {
		return nil, err
	}
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(name)})
	if err != nil {
		return nil, err
	}
	m := pg.Migrator{Set: pg.Set{FS: migrations.FS, Schema: migrations.Schema, Lo: migrations.MinVersion, Hi: migrations.MaxVersion}}
	if _, err := m.Up(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

func (b *bench) fill(ctx context.Context) error {
	conn, err := b.migrated(ctx, small)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := seed(ctx, conn, 1, smallIdle); err != nil {
		return err
	}
	var version string
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version')`).Scan(&version); err != nil {
		return err
	}
	b.machine = machine(version)
	_, err = conn.Exec(ctx, `CHECKPOINT`)
	return err
}

// needLarge makes the large database when the first measurement asks for it: what
// it writes would be in the way of the others.
func (b *bench) needLarge(ctx context.Context) error {
	if b.largeMade {
		return nil
	}
	b.largeMade = true
	b.say(fmt.Sprintf("a database with %d idle matters", b.plan.idle))
	if err := b.database(ctx, large, small); err != nil {
		return err
	}
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(large)})
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := seed(ctx, conn, smallIdle+1, b.plan.idle); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `CHECKPOINT`)
	return err
}

func (b *bench) database(ctx context.Context, name, template string) error {
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN("postgres")})
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()+` TEMPLATE `+pgx.Identifier{template}.Sanitize())
	return err
}

// Idle matters with a past, every tenth with the run that it had. The guards are
// off for the session: no legal path makes a million of them in a minute.
const (
	seedJobsSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation)
SELECT md5('firm' || i % $3)::uuid, md5('matter' || i)::uuid, 'idle', 2, 2, 2 FROM generate_series($1::integer, $2::integer) i`
	seedRunsSQL = `
INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, worker, builder, started_at, finished_at, outcome)
SELECT gen_random_uuid(), md5('firm' || i % $3)::uuid, md5('matter' || i)::uuid, 2, 1, 'past', 'past',
       clock_timestamp() - interval '1 day' * random(), clock_timestamp(), 'landed'
  FROM generate_series($1::integer, $2::integer) i WHERE (i / 1000) % 10 = 0`
)

func seed(ctx context.Context, conn *pgx.Conn, from, to int) error {
	if _, err := conn.Exec(ctx, `SET session_replication_role = replica`); err != nil {
		return err
	}
	for _, sql := range []string{seedJobsSQL, seedRunsSQL} {
		if _, err := conn.Exec(ctx, sql, from, to, firms); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	for _, sql := range []string{`VACUUM (ANALYZE) ops.matter_frame_jobs`, `VACUUM (ANALYZE) ops.matter_frame_runs`, `SET session_replication_role = origin`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// pool opens a pool as a worker does.
func (b *bench) pool(ctx context.Context, db string, conns int) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, pg.Options{DSN: b.cluster.DSN(db), MaxConns: int32(conns), StatementTimeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	return pool, nil
}

// do runs statements on one session with the guards off: scenery, not the rail.
func (b *bench) do(ctx context.Context, db string, statements ...string) error {
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(db)})
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range append([]string{`SET session_replication_role = replica`}, statements...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}

// scan reads one value.
func (b *bench) scan(ctx context.Context, db string, into any, sql string, args ...any) error {
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(db)})
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, sql, args...).Scan(into)
}
