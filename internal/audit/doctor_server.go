package audit

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

func serverVersion(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	v, err := value[int](ctx, tx, `SELECT current_setting('server_version_num')::int`)
	if err != nil {
		return Diagnosis{}, err
	}
	return found(worse(v < 150000, Fail), "use PostgreSQL 15 or later", "PostgreSQL %d.%d", v/10000, v%10000)
}

func readWrite(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	const sql = `SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on'`
	var standby, readOnly bool
	if err := tx.QueryRow(ctx, sql).Scan(&standby, &readOnly); err != nil {
		return Diagnosis{}, err
	}
	switch {
	case standby:
		return found(Fail, "point the connection string at the primary, or name both hosts", "the server is a standby and takes no writes")
	case readOnly:
		return found(Fail, "default_transaction_read_only is on for this role or database", "sessions are read-only")
	}
	return found(OK, "", "the server takes writes")
}

func schemaVersion(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	v, err := pg.Version(ctx, tx, "ops")
	if err != nil {
		return Diagnosis{}, err
	}
	if o.MaxSchema == 0 {
		return found(OK, "", "schema ops is at version %d", v)
	}
	advice := "run `railctl migrate up`"
	if v > o.MaxSchema {
		advice = "this program is older than the schema: install the one that migrated it"
	}
	return found(worse(v < o.MinSchema || v > o.MaxSchema, Fail), advice,
		"schema ops is at version %d, this program works with %d to %d", v, o.MinSchema, o.MaxSchema)
}

func ledgerIdentity(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	l, err := outbox.ReadLedger(ctx, tx)
	if err != nil {
		return Diagnosis{}, err
	}
	if !l.Changed() {
		return found(OK, "", "epoch %d, the server and timeline that the ledger knows", l.Epoch)
	}
	return found(Fail, "a restore or a failover happened: find out whether commits were lost, then `railctl epoch bump --since TIME`",
		"the ledger knows system %d timeline %d, the server is %d timeline %d", l.SystemIdentifier, l.Timeline, l.ServerIdentifier, l.ServerTimeline)
}

func connections(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	const sql = `
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')`
	var most, used int
	if err := tx.QueryRow(ctx, sql).Scan(&most, &used); err != nil {
		return Diagnosis{}, err
	}
	tight := used > most*8/10 || (o.MaxConns > 0 && most-used < o.MaxConns)
	return found(worse(tight, Warn), "raise max_connections, lower database.max_conns, or put a pooler between",
		"%d of %d connections in use; a process of the rail opens up to %d", used, most, o.MaxConns)
}

// Without pg_monitor the transactions of others are not shown, and say nothing.
const oldestSnapshotSQL = `
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)) FILTER (WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL), 0)::float8,
       coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)) FILTER (WHERE state LIKE 'idle in transaction%'), 0)::float8,
       count(*) FILTER (WHERE backend_type = 'client backend' AND state IS NULL)
  FROM pg_stat_activity WHERE pid <> pg_backend_pid()`

func activity(ctx context.Context, tx pgx.Tx) (snapshot, idle time.Duration, hidden int, err error) {
	var s, i float64
	err = tx.QueryRow(ctx, oldestSnapshotSQL).Scan(&s, &i, &hidden)
	return time.Duration(s * float64(time.Second)), time.Duration(i * float64(time.Second)), hidden, err
}

func oldestSnapshot(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	old, _, hidden, err := activity(ctx, tx)
	if err != nil {
		return Diagnosis{}, err
	}
	if hidden > 0 && old <= 15*time.Minute {
		return found(Unknown, "grant pg_monitor to the user that asks", "%d sessions are hidden from this user", hidden)
	}
	return found(worse(old > 15*time.Minute, Warn), "end the transaction that holds it: vacuum removes nothing younger meanwhile",
		"oldest snapshot or open transaction is %s old", rounded(old))
}

func idleInTransaction(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	_, idle, hidden, err := activity(ctx, tx)
	if err != nil {
		return Diagnosis{}, err
	}
	if hidden > 0 && idle <= time.Minute {
		return found(Unknown, "grant pg_monitor to the user that asks", "%d sessions are hidden from this user", hidden)
	}
	return found(worse(idle > time.Minute, Warn), "set idle_in_transaction_session_timeout on the role that does this; the rail never does",
		"longest session idle in a transaction: %s", rounded(idle))
}

func preparedTransactions(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	n, err := value[int](ctx, tx, `SELECT count(*) FROM pg_prepared_xacts`)
	if err != nil {
		return Diagnosis{}, err
	}
	return found(worse(n > 0, Warn), "commit or roll back what nobody will finish: it holds locks and snapshots across restarts",
		"%s", plural(int64(n), "prepared transaction", "prepared transactions"))
}

// The tables are named by the catalogue, so that a new one is looked at too.
const autovacuumSQL = `
SELECT current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on',
       coalesce(array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE 'autovacuum_enabled=false' = ANY (c.reloptions)), '{}'),
       coalesce(array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE s.n_dead_tup > 100000 AND s.n_dead_tup > s.n_live_tup), '{}')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
 WHERE n.nspname = 'ops' AND c.relkind = 'r'`

func autovacuum(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	var on bool
	var off, bloated []string
	if err := tx.QueryRow(ctx, autovacuumSQL).Scan(&on, &off, &bloated); err != nil {
		return Diagnosis{}, err
	}
	switch {
	case !on:
		return found(Fail, "turn autovacuum and track_counts on: the ledger is rewritten all the time", "autovacuum is off")
	case len(off) > 0:
		return found(Fail, "reset autovacuum_enabled on them", "autovacuum is off for %s", strings.Join(off, ", "))
	case len(bloated) > 0:
		return found(Warn, "see oldest_snapshot, or give autovacuum more workers and a higher cost limit",
			"more dead rows than live ones in %s", strings.Join(bloated, ", "))
	}
	return found(OK, "", "autovacuum is on and keeps up")
}

func wraparound(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	const sql = `SELECT (100 * greatest(max(age(datfrozenxid)), max(mxid_age(datminmxid)))::float8 / 2147483648)::int FROM pg_database`
	n, err := value[int](ctx, tx, sql)
	if err != nil {
		return Diagnosis{}, err
	}
	state := worse(n > 50, Warn)
	if n > 80 {
		state = Fail
	}
	return found(state, "find what keeps vacuum from freezing: an old snapshot, a replication slot, a prepared transaction",
		"oldest transaction id is at %d %% of the way to wraparound", n)
}

func synchronousCommit(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	v, err := value[string](ctx, tx, `SELECT current_setting('synchronous_commit') || ' ' || current_setting('fsync')`)
	if err != nil {
		return Diagnosis{}, err
	}
	commit, fsync, _ := strings.Cut(v, " ")
	bad := commit == "off" || fsync == "off"
	return found(worse(bad, Warn), "a crash may lose demand that was acknowledged: for anything but tests turn both on",
		"synchronous_commit %s, fsync %s", commit, fsync)
}

// value reads a single value.
func value[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) (v T, err error) {
	err = tx.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}
