package local

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// process is one run of the postmaster.
type process struct {
	pid    int
	exited chan struct{} // closed when the postmaster has been waited for
	tail   *lastBytes
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) interrupt()        { _ = syscall.Kill(p.pid, syscall.SIGINT) }
func (p *process) lastWords() string { return tail(p.tail.bytes()) }

// kill ends the postmaster and its children. The postmaster is stopped first, so
// that it cannot start another child after the list was made, and the children are
// waited for, because a new postmaster refuses to start while one is alive.
func (p *process) kill() {
	_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	kids := children(p.pid)
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
	for _, k := range kids {
		_ = syscall.Kill(k, syscall.SIGKILL)
	}
	<-p.exited
	gone(kids)
}

// gone waits, at most ten seconds, until none of pids is alive. They are not our
// children, so there is nothing to wait on but the process table.
func gone(pids []int) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if !slices.ContainsFunc(pids, alive) {
			return
		}
	}
}

// command is one of PostgreSQL's programs, run as the cluster's account with
// nothing of our environment but the path. No context ends it: the server outlives
// the call that started it.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.Bin.program(name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + c.Dir, "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as.credential}
	return cmd
}

// launch starts the postmaster. It is our child until it exits; Linux signals it
// when the thread that started it ends, so one thread is set aside for it, which
// then waits for its exit.
func (c *Cluster) launch() (*process, error) {
	cmd := c.command("postgres", c.arguments()...)
	cmd.Env = append(cmd.Env, c.opts.Env...)
	cmd.SysProcAttr.Setsid = true // an interrupt at the terminal is ours to handle, not the server's
	if !c.opts.Survive {
		dieWithParent(cmd.SysProcAttr)
	}
	p := &process{exited: make(chan struct{}), tail: &lastBytes{}}
	closeLog, err := c.logTo(cmd, p.tail)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer closeLog()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its exit code says nothing that the log does not
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return p, nil
}

// logTo sends the server's messages to the caller's writer or to a file. A server
// that outlives us needs the file itself: a pipe would break under it.
func (c *Cluster) logTo(cmd *exec.Cmd, last *lastBytes) (closeLog func(), err error) {
	w := c.opts.Log
	closeLog = func() {}
	if w == nil {
		f, err := os.OpenFile(filepath.Join(c.Dir, "postgres.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("log of PostgreSQL: %w", err)
		}
		w, closeLog = f, func() { _ = f.Close() }
	}
	if !c.opts.Survive {
		w = io.MultiWriter(last, w)
	}
	cmd.Stdout, cmd.Stderr = w, w
	return closeLog, nil
}

// arguments are the server's settings on its command line, in a fixed order.
func (c *Cluster) arguments() []string {
	s := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(c.Port),
		"unix_socket_directories": c.socketDir(),
		"logging_collector":       "off",
		"log_min_messages":        "warning",
		"log_line_prefix":         "%m [%p] %q%a ",
		"timezone":                "UTC",
	}
	if !c.opts.Durable {
		s["fsync"], s["full_page_writes"] = "off", "off"
	}
	maps.Copy(s, c.opts.Settings)
	args := []string{"-D", c.data()}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		args = append(args, "-c", k+"="+s[k])
	}
	return args
}

// socketDir is the data directory, or nowhere when the path is longer than a
// socket's name may be.
func (c *Cluster) socketDir() string {
	if len(c.data())+len("/.s.PGSQL.65535.lock") > 100 {
		return ""
	}
	return c.data()
}

// lastBytes keeps the end of what was written to it.
type lastBytes struct {
	mu  sync.Mutex
	buf []byte
}

const keepBytes = 2000

// Write implements io.Writer and never fails.
func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	if n := len(l.buf); n > keepBytes {
		l.buf = append([]byte(nil), l.buf[n-keepBytes:]...)
	}
	return len(b), nil
}

func (l *lastBytes) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]byte(nil), l.buf...)
}

// tail is the end of a program's output, for an error message.
func tail(out []byte) string {
	if len(out) > 600 {
		out = out[len(out)-600:]
	}
	return string(out)
}
