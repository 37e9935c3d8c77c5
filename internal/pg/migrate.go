package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

// Migrator brings one schema to the newest version of its Set. The zero values of
// the other fields are good.
type Migrator struct {
	Set Set
	// OnStart is called before each migration runs (again, when it is retried).
	OnStart func(version int, name string)
	// LockTimeout is how long a migration waits for a table lock before it lets
	// the queue behind it pass and tries again. Zero means 5 s.
	LockTimeout time.Duration
	// Attempts is how often a migration that could not get its locks is tried.
	// Zero means 10; between two tries it waits as long as LockTimeout.
	Attempts int
}

// migrationLock keeps two migrators of one database apart for the whole run, from
// the creation of the schema on, which the lock inside tern does not cover.
const migrationLock = int64(0x7261696c_6d696772)

const (
	defaultLockTimeout = 5 * time.Second
	defaultAttempts    = 10
)

// Up applies what is pending, each migration in its own transaction together with
// its version and its checksum, and returns how many ran. A second migrator waits
// for the first and then finds nothing to do. Applied files that have changed
// since, and a database newer than the Set, are refused before anything runs.
//
// conn must be a direct session: behind a pooler it is refused with ErrPooler, as the
// lock is the session's.
func (m Migrator) Up(ctx context.Context, conn *pgx.Conn) (applied int, err error) {
	files, err := m.Set.files()
	if err != nil {
		return 0, err
	}
	if err := unicode(conn); err != nil {
		return 0, err
	}
	if err := direct(ctx, conn); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "select set_config('lock_timeout', '0', false), pg_advisory_lock($1)", migrationLock); err != nil {
		return 0, fmt.Errorf("wait for other migrations: %w", err)
	}
	defer unlock(ctx, conn)
	if err := m.prepare(ctx, conn); err != nil {
		return 0, err
	}
	before, err := m.Set.verify(ctx, conn, files)
	if err != nil {
		return 0, err
	}
	if err := m.run(ctx, conn, files); err != nil {
		after, _ := Version(context.WithoutCancel(ctx), conn, m.Set.Schema)
		return max(after-before, 0), err
	}
	return len(files) - before, nil
}

// unicode refuses a database that keeps text in anything but UTF-8. Another encoding
// cannot hold what a Brief quotes, and SQL_ASCII holds bytes that nobody can read back:
// one row of them would hide a whole page.
func unicode(conn *pgx.Conn) error {
	if enc := conn.PgConn().ParameterStatus("server_encoding"); enc != "UTF8" {
		return fmt.Errorf("the database keeps text as %q, and UTF8 is needed: give another one, as by "+
			"CREATE DATABASE rail ENCODING 'UTF8' TEMPLATE template0", enc)
	}
	return nil
}

// unlock also works when ctx is what ended the run; closing the session would
// release the lock as well.
func unlock(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "select pg_advisory_unlock($1)", migrationLock)
}

// prepare makes the schema and the checksum table where they are missing. It looks
// first, so that a run with nothing to do needs no right to create.
func (m Migrator) prepare(ctx context.Context, conn *pgx.Conn) error {
	var schema, table bool
	err := conn.QueryRow(ctx, `select to_regnamespace($1) is not null, to_regclass($2) is not null`,
		m.Set.Schema, m.Set.table("schema_checksums")).Scan(&schema, &table)
	if err != nil {
		return fmt.Errorf("look for schema %s: %w", m.Set.Schema, err)
	}
	if !schema {
		if _, err := conn.Exec(ctx, "create schema "+ident(m.Set.Schema)); err != nil {
			return fmt.Errorf("create schema %s: %w", m.Set.Schema, err)
		}
	}
	if table {
		return nil
	}
	_, err = conn.Exec(ctx, "create table "+m.Set.checksumTable())
	if err != nil {
		return fmt.Errorf("create checksum table: %w", err)
	}
	return nil
}

// run hands the files to tern, again for as long as locks are the only trouble.
func (m Migrator) run(ctx context.Context, conn *pgx.Conn, files []file) error {
	wait := orDefault(m.LockTimeout, defaultLockTimeout)
	attempts := m.Attempts
	if attempts <= 0 {
		attempts = defaultAttempts
	}
	for {
		err := m.once(ctx, conn, files, wait)
		attempts--
		if err == nil || attempts <= 0 || !isLockTrouble(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// isLockTrouble: lock_not_available and deadlock_detected.
func isLockTrouble(err error) bool {
	s := SQLState(err)
	return s == "55P03" || s == "40P01"
}

func (m Migrator) once(ctx context.Context, conn *pgx.Conn, files []file, wait time.Duration) error {
	t, err := migrate.NewMigrator(ctx, conn, m.Set.table("schema_version"))
	if err != nil {
		return fmt.Errorf("version table of schema %s: %w", m.Set.Schema, err)
	}
	for _, f := range files {
		t.AppendMigration(f.name, m.Set.withChecksum(f), f.down)
	}
	t.OnStart = func(version int32, name, _, _ string) {
		// Here, because tern resets the session after every migration. A failure
		// to set it would show in the migration itself.
		_, _ = conn.Exec(ctx, fmt.Sprintf("set lock_timeout = %d; set statement_timeout = 0", max(1, wait.Milliseconds())))
		if m.OnStart != nil {
			m.OnStart(int(version), name)
		}
	}
	if err := t.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate schema %s: %w", m.Set.Schema, err)
	}
	return nil
}

// withChecksum appends the bookkeeping to a file's own statements, so that both
// are in the same transaction.
func (s Set) withChecksum(f file) string {
	return f.up + "\n;\n" + s.recordSQL(f)
}

func (s Set) recordSQL(f file) string {
	return fmt.Sprintf("insert into %s (version, name, sha256) values (%d, %s, %s)\n"+
		"on conflict (version) do update set name = excluded.name, sha256 = excluded.sha256, applied_at = clock_timestamp();",
		s.table("schema_checksums"), f.version, literal(f.name), literal(f.sha256))
}

func ident(s string) string { return pgx.Identifier{s}.Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
