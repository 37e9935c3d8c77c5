package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/brief"
	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
)

// stage is all that the demo started. strike ends all of it.
type stage struct {
	dir      string // holds everything that is written
	dsn      string
	programs map[string]string // path of each
	pool     *pgxpool.Pool
	database func(context.Context) error // ends the server; nil before it runs
	bus      *demoWay                    // nil with source ledger
	relay    *process                    // beside a bus
	builder  *process
	workers  []*process
}

// findPrograms looks for the others beside this one, so that all are of one build.
func findPrograms(source string) (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the programs: %w", err)
	}
	found := map[string]string{"railctl": self}
	others := []string{"railworker", "brief-builder"}
	if source == demoBus {
		others = append(others, "outbox-relay")
	}
	for _, name := range others {
		found[name] = filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(found[name]); err != nil || info.IsDir() {
			return nil, fail(exitUsage, "%s is not beside railctl in %s: make build puts all programs into bin/, and make demo starts from there",
				name, filepath.Dir(self))
		}
	}
	return found, nil
}

// raise starts everything. What had been started is ended when the rest fails.
func raise(ctx context.Context, programs map[string]string, o demoOptions, s *screen) (*stage, error) {
	st := &stage{programs: programs}
	if err := st.build(ctx, o, s); err != nil {
		s.clear()
		return nil, errors.Join(st.withLogs(ctx, err), st.strike())
	}
	return st, nil
}

func (st *stage) build(ctx context.Context, o demoOptions, s *screen) (err error) {
	if st.dir, err = os.MkdirTemp("", "briefrail-demo-"); err != nil {
		return fmt.Errorf("folder of the demo: %w", err)
	}
	if err := st.startDatabase(ctx, s); err != nil {
		return err
	}
	if err := st.migrate(ctx, s); err != nil {
		return err
	}
	if o.source == demoBus {
		if err := st.startBus(ctx, o.endpoint, s); err != nil {
			return err
		}
	}
	return st.startProcesses(ctx, o.workers, s)
}

func (st *stage) startDatabase(ctx context.Context, s *screen) error {
	s.status("starting PostgreSQL")
	// the server runs as another account where this one is root, and has to pass
	if err := os.Chmod(st.dir, 0o711); err != nil {
		return fmt.Errorf("folder of the demo: %w", err)
	}
	what, err := st.startLocal(ctx)
	if errors.Is(err, local.ErrNoBinaries) {
		s.status("starting PostgreSQL in Docker")
		what, err = st.startDocker(ctx, err)
	}
	if err != nil {
		return err
	}
	s.fact("database", "%s, thrown away at the end", what)
	return nil
}

func (st *stage) startLocal(ctx context.Context) (what string, err error) {
	c, err := local.Start(ctx, local.Options{Dir: filepath.Join(st.dir, "postgres")})
	if err != nil {
		return "", err
	}
	st.dsn, st.database = c.DSN("postgres"), c.Stop
	return fmt.Sprintf("PostgreSQL %d on 127.0.0.1:%d", c.Bin.Major, c.Port), nil
}

func (st *stage) migrate(ctx context.Context, s *screen) (err error) {
	s.status("making the tables")
	conn, err := pg.Connect(ctx, pg.Options{DSN: st.dsn, ApplicationName: "railctl demo"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	n, err := pg.Migrator{Set: opsSet()}.Up(ctx, conn)
	if err != nil {
		return err
	}
	m, err := brief.Migrate(ctx, conn)
	if err != nil {
		return err
	}
	s.fact("tables", "schema ops for the rail, schema record for the documents (%s)", count(n+m, "migration"))
	st.pool, err = pg.Open(ctx, pg.Options{DSN: st.dsn, ApplicationName: "railctl demo", MaxConns: 4, StatementTimeout: 30 * time.Second})
	return err
}

func (st *stage) startProcesses(ctx context.Context, workers int, s *screen) (err error) {
	s.status("starting the build service and %s", count(workers, "worker"))
	st.builder, err = st.start(ctx, "build service", "brief-builder",
		[]string{"serve", "--listen", "127.0.0.1:0", "--delay", demoBuild.String()}, "BRIEF_DATABASE_URL="+st.dsn)
	if err != nil {
		return err
	}
	names := make([]string, workers)
	for i := range workers {
		w, err := st.start(ctx, string(rune('A'+i)), "railworker", []string{"run"}, st.workerEnv(string(rune('A'+i)))...)
		if err != nil {
			return err
		}
		st.workers = append(st.workers, w)
		names[i] = fmt.Sprintf("worker %s (process %d)", w.name, w.pid())
	}
	if st.relay != nil {
		names = append(names, fmt.Sprintf("relay (process %d)", st.relay.pid()))
	}
	s.fact("programs", "%s, build service (process %d)", strings.Join(names, ", "), st.builder.pid())
	s.fact("pace", "a build takes %d s; a worker that is silent for %d s loses its job",
		int(demoBuild.Seconds()), int(demoLease.Seconds()))
	return nil
}

// workerEnv is the configuration of one worker: the defaults, but faster.
func (st *stage) workerEnv(name string) []string {
	env := []string{
		"RAIL_DATABASE_URL=" + st.dsn, "RAIL_BUILDER_HTTP_URL=http://" + st.builder.listen + "/v1/build",
		"RAIL_WORKER_NAME=" + name, "RAIL_WORKER_SLOTS=4", "RAIL_WORKER_STOP_GRACE=1s", "RAIL_ADMIN_LISTEN=127.0.0.1:0",
		"RAIL_LEASE_DURATION=" + demoLease.String(), "RAIL_SETTLE_QUIET=" + demoSettle.String(), "RAIL_SWEEP_EVERY=300ms",
		"RAIL_RETRY_BACKOFF=500ms", "RAIL_POLL_MAX_IDLE=100ms", "RAIL_CANARY_EVERY=off", "RAIL_LOG_FORMAT=json",
	}
	if st.bus == nil {
		return env
	}
	return append(env, st.bus.workerEnv()...)
}

// start runs one program with its log in the demo's folder and waits until it is
// ready.
func (st *stage) start(ctx context.Context, name, program string, args []string, settings ...string) (*process, error) {
	log := filepath.Join(st.dir, strings.TrimSuffix(strings.TrimSuffix(program+"-"+name, "-build service"), "-relay")+".log")
	p, err := newProcess(name, st.programs[program], log, syscall.SIGKILL, args, settings)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := p.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), p.stop())
	}
	return p, nil
}

// died is an error when a process has ended that should be running.
func (st *stage) died() error {
	for _, p := range st.processes() {
		if p.ended() {
			return fmt.Errorf("%s has ended by itself", p.name)
		}
	}
	return nil
}

func (st *stage) processes() (all []*process) {
	for _, p := range []*process{st.relay, st.builder} {
		if p != nil {
			all = append(all, p)
		}
	}
	return append(all, st.workers...)
}

// withLogs adds the last lines of every log to an error: the folder goes away.
func (st *stage) withLogs(ctx context.Context, err error) error {
	if ctx.Err() != nil || st.dir == "" {
		return err
	}
	logs, _ := filepath.Glob(filepath.Join(st.dir, "*.log")) // the only error is a bad pattern
	for _, path := range logs {
		if tail := lastLines(path, 5); tail != "" {
			err = fmt.Errorf("%w\n%s ends with:\n%s", err, filepath.Base(path), tail)
		}
	}
	return err
}

// strike ends all processes, then the server, and removes the folder. It is not
// bound to the demo's context, whose end is the usual reason for it.
func (st *stage) strike() error {
	var all errgroup.Group
	for _, p := range st.processes() {
		all.Go(p.stop)
	}
	errs := []error{all.Wait()}
	// bounded clean-up: what an endpoint keeps after that stays, under the demo's name
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if st.bus != nil {
		errs = append(errs, st.bus.end(ctx))
	}
	if st.pool != nil {
		st.pool.Close()
	}
	if st.database != nil {
		// the server is killed after that
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, st.database(ctx))
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}
