package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options shape a cluster; the zero value is good for a test.
type Options struct {
	Dir      string            // where to live; empty: a new temporary folder, which Close removes
	Port     int               // TCP port on 127.0.0.1; zero: any free one
	Log      io.Writer         // the server's messages; nil: the file postgres.log in Dir
	Settings map[string]string // server settings on top of the defaults
	Env      []string          // KEY=value for the server's environment
	Durable  bool              // sync to disk, as a real server does
	Survive  bool              // keep running after this process has gone
	BinDir   string            // folder of the binaries; empty: look for them
}

// Cluster is one PostgreSQL server. Its methods may be called from several
// goroutines; the fields do not change after Start.
type Cluster struct {
	Dir  string // holds data/ and postgres.log
	Port int
	Bin  Binaries

	opts Options
	as   account
	temp bool

	mu   sync.Mutex
	proc *process // nil when never started
}

// startTimeout bounds the wait for a server to accept connections; recovery after
// a kill is part of it.
const startTimeout = 60 * time.Second

// Start makes a data directory and runs a server on it. It returns when the server
// accepts connections. The caller ends it with Close, or with Stop when Dir was
// given. Unless Survive is set, the server ends when this process does (on Linux
// even when it is killed).
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := Find(o.BinDir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: o.Dir, Port: o.Port, Bin: bin, opts: o, temp: o.Dir == ""}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	if err := c.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// prepare makes the folder and the data directory in it.
func (c *Cluster) prepare() (err error) {
	if c.as, err = unprivileged(); err != nil {
		return err
	}
	if err := c.folder(); err != nil {
		return err
	}
	return c.initdb()
}

func (c *Cluster) folder() (err error) {
	if c.temp {
		c.Dir, err = os.MkdirTemp("", "briefrail-pg-")
	} else {
		c.Dir, err = filepath.Abs(c.Dir)
		err = errors.Join(err, os.MkdirAll(c.Dir, 0o711))
	}
	if err != nil {
		return fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	return c.as.reach(c.Dir)
}

// initdb fills the data directory; one that is filled already is kept.
func (c *Cluster) initdb() error {
	if _, err := os.Stat(filepath.Join(c.data(), "PG_VERSION")); err == nil {
		return nil
	}
	if err := c.as.mkdir(c.data()); err != nil {
		return err
	}
	var err error
	for _, locale := range []string{"C.UTF-8", "C"} { // not every system has the first
		if err = c.initdbAs(locale); err == nil {
			return nil
		}
	}
	return err
}

func (c *Cluster) initdbAs(locale string) error {
	cmd := c.command("initdb", "-D", c.data(), "-U", "postgres", "--auth=trust",
		"-E", "UTF8", "--locale="+locale, "--no-sync", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb as %s: %w: %s", c.as.name, err, tail(out))
	}
	return nil
}

// startOnFreePort tries again when somebody took the port between the choice and
// the server's bind.
func (c *Cluster) startOnFreePort(ctx context.Context) (err error) {
	for range 3 {
		if c.opts.Port == 0 {
			if c.Port, err = freePort(); err != nil {
				return err
			}
		}
		if err = c.Restart(ctx); err == nil || c.opts.Port != 0 {
			return err
		}
	}
	return err
}

// Restart starts the server again after Stop, Kill or a crash, on the same port
// and data. It returns when the server accepts connections, and does nothing when
// it is running.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc.running() {
		return nil
	}
	p, err := c.launch()
	if err != nil {
		return err
	}
	c.proc = p
	if err := c.ready(ctx, p); err != nil {
		p.kill()
		return err
	}
	return nil
}

// Stop ends the server in order ("fast": sessions are cut, data is written). When
// ctx ends first the server is killed.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.proc.running() {
		return nil
	}
	c.proc.interrupt()
	select {
	case <-c.proc.exited:
		return nil
	case <-ctx.Done():
		c.proc.kill()
		return fmt.Errorf("stop PostgreSQL: killed after %w", ctx.Err())
	}
}

// Kill ends the postmaster and all of its children at once with SIGKILL, as a
// power cut would but for the disk: what was committed stays. It returns when all
// of them have gone.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc.running() {
		c.proc.kill()
	}
}

// Close stops the server and removes its folder when Start made it.
func (c *Cluster) Close(ctx context.Context) error {
	return errors.Join(c.Stop(ctx), c.remove())
}

func (c *Cluster) remove() error {
	if !c.temp || c.Dir == "" {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

// Pid is the postmaster's process id, 0 when it is not running.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.proc.running() {
		return 0
	}
	return c.proc.pid
}

// DSN is the connection string of one database, as the superuser.
func (c *Cluster) DSN(db string) string { return DSN(c.Port, db) }

// DSN is the connection string of a database of the cluster on a port.
func DSN(port int, db string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + db, RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}
	return u.String()
}

func (c *Cluster) data() string { return filepath.Join(c.Dir, "data") }

// ready waits until the server answers, or has gone, or took too long.
func (c *Cluster) ready(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ping(ctx, c.DSN("postgres")) == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("PostgreSQL ended at start: %s", p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w: %s", ctx.Err(), p.lastWords())
		case <-tick.C:
		}
	}
}

func ping(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: %v is no TCP address", l.Addr())
	}
	return addr.Port, nil
}
