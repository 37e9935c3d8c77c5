package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options says how to reach the database and how a session behaves. Only DSN is
// required.
type Options struct {
	// DSN is a postgres:// URL or a keyword=value string. It may name several
	// hosts; the first that accepts writes is used.
	DSN string
	// Password, when set, is asked for before every new connection, so that a
	// rotated secret is picked up without a restart. It overrides the DSN's.
	Password func(context.Context) (string, error)
	// ApplicationName is what pg_stat_activity shows: component and version.
	ApplicationName string

	// MaxConns bounds the pool; zero leaves pgx's default. Connect ignores it.
	MaxConns int32
	// MaxConnLifetime is the age at which a session is replaced, up to a fifth
	// later so that a fleet does not reconnect in step. Zero means 30 minutes.
	MaxConnLifetime time.Duration
	// MaxConnIdleTime is the age of its last use at which a session is closed. What
	// is used is looked at then; nobody looks at what lies unused, and its server may
	// have handed the writes to another meanwhile. Zero means 10 s.
	MaxConnIdleTime time.Duration
	// HealthCheckPeriod is how often the pool closes what is too old or was idle for
	// too long; it asks the server nothing. Zero means 5 s.
	HealthCheckPeriod time.Duration
	// ConnectTimeout bounds one connection attempt to one host. Zero means 5 s.
	ConnectTimeout time.Duration
	// AcquireTimeout bounds the wait for a session of the pool, so that an
	// exhausted pool is an error and never a hang. Zero means 10 s.
	AcquireTimeout time.Duration

	// StatementTimeout, LockTimeout and IdleInTransactionTimeout are set on the
	// session at its start; zero leaves the server's or the role's setting.
	StatementTimeout         time.Duration
	LockTimeout              time.Duration
	IdleInTransactionTimeout time.Duration

	// Pooler is for a DSN that leads to a transaction-mode pooler: no named
	// prepared statements are used and no timeouts are sent at start-up, as such
	// a pooler refuses them; set them on the role instead.
	Pooler bool
	// StatementCache is how many statements a session keeps prepared (or, with
	// Pooler, described); zero means pgx's own default.
	StatementCache int
	// ReadOnlyOK accepts sessions that cannot write. Without it they are refused
	// at connect, and the first that is found in the pool empties it.
	ReadOnlyOK bool
	// Metrics counts errors and read-only sessions; nil counts nothing.
	Metrics *Metrics
}

const (
	defaultLifetime       = 30 * time.Minute
	defaultIdleTime       = 10 * time.Second
	defaultHealthCheck    = 5 * time.Second
	defaultConnectTimeout = 5 * time.Second
	defaultAcquireTimeout = 10 * time.Second
)

// Open makes a pool. It does not connect: a database that is down at start is
// seen by the first query, and the pool recovers by itself. The error is about
// Options only and never contains the connection string.
func Open(ctx context.Context, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, dsnError(err)
	}
	watch := o.session(cfg.ConnConfig)
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	cfg.MaxConnLifetime = orDefault(o.MaxConnLifetime, defaultLifetime)
	cfg.MaxConnLifetimeJitter = cfg.MaxConnLifetime / 5
	cfg.MaxConnIdleTime = orDefault(o.MaxConnIdleTime, defaultIdleTime)
	cfg.HealthCheckPeriod = orDefault(o.HealthCheckPeriod, defaultHealthCheck)
	// A peer that has vanished must leave time to try other sessions.
	cfg.PingTimeout = watch.acquire / 4
	cfg.BeforeConnect = o.beforeConnect
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error { RegisterTypes(c); return nil }
	cfg.PrepareConn = watch.prepare
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	watch.pool.Store(pool)
	return pool, nil
}

// Connect makes one session outside any pool, for a migration or a session-level
// lock. The caller closes it.
func Connect(ctx context.Context, o Options) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		return nil, dsnError(err)
	}
	o.session(cfg)
	if err := o.beforeConnect(ctx, cfg); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", ExplainPooler(err))
	}
	RegisterTypes(conn)
	return conn, nil
}

// session applies what holds for every session, pooled or not.
func (o Options) session(cc *pgx.ConnConfig) *watch {
	w := &watch{
		readOnlyOK: o.ReadOnlyOK, metrics: o.Metrics,
		acquire: orDefault(o.AcquireTimeout, defaultAcquireTimeout),
	}
	cc.Tracer = w
	if o.ConnectTimeout > 0 || cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = orDefault(o.ConnectTimeout, defaultConnectTimeout)
	}
	// A peer that vanished without a word must not hold a session for hours.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3,
	}}
	cc.DialFunc = dialer.DialContext
	if !o.ReadOnlyOK {
		cc.ValidateConnect = w.validate
	}
	if o.Pooler {
		// Statements are described once and then sent whole: one round trip, the
		// same binary encoding as named statements, nothing left on the server.
		cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if o.StatementCache > 0 {
		cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = o.StatementCache, o.StatementCache
	}
	maps.Copy(cc.RuntimeParams, o.runtimeParams())
	return w
}

func (o Options) runtimeParams() map[string]string {
	p := map[string]string{}
	if o.ApplicationName != "" {
		p["application_name"] = o.ApplicationName
	}
	if o.Pooler {
		return p
	}
	// a snapshot older than the row lock would see the world before it
	p["default_transaction_isolation"] = "read committed"
	for name, d := range map[string]time.Duration{
		"statement_timeout":                   o.StatementTimeout,
		"lock_timeout":                        o.LockTimeout,
		"idle_in_transaction_session_timeout": o.IdleInTransactionTimeout,
	} {
		if d > 0 {
			p[name] = strconv.FormatInt(max(1, d.Milliseconds()), 10)
		}
	}
	return p
}

func (o Options) beforeConnect(ctx context.Context, cc *pgx.ConnConfig) error {
	if o.Password == nil {
		return nil
	}
	pw, err := o.Password(ctx)
	if err != nil {
		return fmt.Errorf("read database password: %w", err)
	}
	cc.Password = pw
	return nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// ErrDSN says that a connection string cannot be used as it is written, whether or
// not a database is there.
var ErrDSN = errors.New("database connection string")

// CheckDSN reports what Open would say of a connection string. It connects to
// nothing; it reads the files that the string names, such as sslrootcert. Its error
// is an ErrDSN and repeats nothing of the string.
func CheckDSN(dsn string) error {
	if _, err := pgxpool.ParseConfig(dsn); err != nil {
		return dsnError(err)
	}
	return nil
}

// dsnError reports a bad connection string without repeating any of it: pgx masks
// passwords only as far as it can tell them from the rest.
func dsnError(err error) error {
	var pe *pgconn.ParseConfigError
	if !errors.As(err, &pe) {
		return fmt.Errorf("%w: it cannot be used", ErrDSN)
	}
	for _, known := range []string{
		"invalid port", "unknown target_session_attrs value", "sslmode is invalid",
		"failed to configure TLS", "failed to read service", "invalid keyword/value", "cannot parse pool_max_conns",
	} {
		if strings.Contains(err.Error(), known) {
			return fmt.Errorf("%w: %s", ErrDSN, known)
		}
	}
	return fmt.Errorf("%w: want postgres://USER@HOST:PORT/DATABASE or host=HOST dbname=DATABASE", ErrDSN)
}
