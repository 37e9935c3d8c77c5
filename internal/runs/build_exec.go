package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// exitTryLater is the exit status (EX_TEMPFAIL) by which a command asks to be tried
// again.
const exitTryLater = 75

// ExecOptions configure an Exec builder.
type ExecOptions struct {
	Command        []string      // program and arguments; no shell is involved
	Timeout        time.Duration // for the whole build
	KillGrace      time.Duration // between SIGTERM and SIGKILL; 0 means 5 s
	MaxFrameBytes  int64
	SchemaVersion  string                // recorded with the frames, "" means "exec"
	BuilderVersion string                // recorded with the frames, "" means "exec"
	Env            []string              // NAME=value, besides the minimal environment
	Registerer     prometheus.Registerer // nil: metrics are not exported
}

// Exec runs a command for every build: the request of the HTTP protocol on its
// standard input, the bare frame on its standard output. Exit status 0 is a frame,
// 75 means Transient, any other Permanent; a command that a foreign signal ended
// (the kernel's, when memory runs out) is Transient, as it has said nothing about
// the matter. A command that cannot be started is Unavailable.
//
// The command leads a process group of its own. The group gets SIGTERM, and
// SIGKILL after the grace, when the build is ended or says too much; what the
// command leaves behind in the group when it exits is killed. A descendant that has
// left the group is out of reach, but is not waited for longer than the grace.
//
// The environment has PATH, HOME, TMPDIR, LANG and TZ of this process, the RAIL_*
// words of the request and Env: nothing of the rail's own secrets.
type Exec struct {
	opts    ExecOptions
	env     []string
	metrics *buildMetrics
}

// NewExec checks the options. It does not look for the program.
func NewExec(o ExecOptions) (*Exec, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, errors.New("builder command: must not be empty")
	}
	if o.Timeout <= 0 || o.MaxFrameBytes <= 0 || o.KillGrace < 0 {
		return nil, errors.New("builder: timeout and frame limit must be positive")
	}
	if o.KillGrace == 0 {
		o.KillGrace = 5 * time.Second
	}
	if o.SchemaVersion == "" {
		o.SchemaVersion = "exec"
	}
	if o.BuilderVersion == "" {
		o.BuilderVersion = "exec"
	}
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, pair := range o.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" || strings.ContainsRune(pair, 0) {
			return nil, errors.New("builder environment: want NAME=value")
		}
		env = append(env, pair)
	}
	metrics, err := newBuildMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Exec{opts: o, env: env, metrics: metrics}, nil
}

// Build implements Builder.
func (b *Exec) Build(ctx context.Context, r Request) (Frame, Usage, error) {
	start := time.Now()
	w := newWatch(ctx, b.opts.Timeout)
	defer w.stop()
	out, bad := b.run(w, r)
	err := b.metrics.done(start, len(out), bad)
	if err != nil {
		return Frame{}, Usage{}, err
	}
	return Frame{JSON: out, SchemaVersion: b.opts.SchemaVersion, BuilderVersion: b.opts.BuilderVersion}, Usage{}, nil
}

func (b *Exec) run(w *watch, r Request) ([]byte, *BuildError) {
	if ended := w.ended(); ended != nil {
		return nil, ended
	}
	p, err := b.start(r)
	if err != nil {
		return nil, failed(Unavailable, KindExecStart, "the builder command cannot be started", err)
	}
	defer p.close()
	outDone, errDone := make(chan struct{}), make(chan struct{})
	var out []byte
	var said tail
	go func() {
		defer close(outDone)
		var err error
		if out, err = readAll(p.out, -1, b.opts.MaxFrameBytes, func(int) {}); errors.Is(err, errTooLarge) {
			w.cancel(errTooLarge)
		}
	}()
	go func() {
		defer close(errDone)
		_, _ = io.Copy(&said, p.errs) // what came before an error is all there is
	}()
	exit := p.wait(w.ctx, b.opts.KillGrace)
	<-outDone
	<-errDone
	return out, verdict(w, exit, out, &said)
}

// verdict tells what the end of a command means.
func verdict(w *watch, exit error, out []byte, said *tail) *BuildError {
	var status *exec.ExitError
	switch {
	case w.ctx.Err() != nil:
		return said.attach(w.ended())
	case exit == nil && bytes.HasPrefix(bytes.TrimLeft(out, " \t\r\n"), []byte("{")):
		return nil
	case exit == nil && len(bytes.TrimSpace(out)) == 0:
		return said.attach(failed(Permanent, KindEmpty, "the builder command wrote no frame", nil))
	case exit == nil:
		return failed(Permanent, KindNotJSON, "the builder command wrote no JSON object", nil).saying(out, "")
	case !errors.As(exit, &status):
		return said.attach(failed(Transient, KindExecKilled, "the builder command was lost", exit))
	case status.ExitCode() == exitTryLater:
		return said.attach(failed(Transient, KindExecExit, "the builder command asks to be tried later", exit))
	case status.ExitCode() < 0:
		return said.attach(failed(Transient, KindExecKilled, "the builder command was ended: "+status.String(), exit))
	}
	text := fmt.Sprintf("the builder command ended with status %d", status.ExitCode())
	return said.attach(failed(Permanent, KindExecExit, text, exit))
}

// process is a running command and our ends of its pipes.
type process struct {
	cmd       *exec.Cmd
	out, errs *os.File
}

// start starts the command. The request fits into the pipe's buffer, so it is
// written before: a command that never reads it blocks nobody.
func (b *Exec) start(r Request) (p *process, err error) {
	request, err := requestJSON(r)
	if err != nil {
		return nil, err
	}
	var pipes [6]*os.File // read and write ends of stdin, stdout, stderr
	defer func() {
		closeAll(pipes[0], pipes[1], pipes[3], pipes[5])
		if err != nil {
			closeAll(pipes[2], pipes[4])
		}
	}()
	for i := 0; i < len(pipes); i += 2 {
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	if _, err = pipes[1].Write(request); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.opts.Command[0], b.opts.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0], pipes[3], pipes[5]
	cmd.Env = append(requestEnv(r), b.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, out: pipes[2], errs: pipes[4]}, nil
}

// requestEnv gives scripts the request without a JSON parser.
func requestEnv(r Request) []string {
	env := []string{
		"RAIL_FIRM_ID=" + r.Key.Firm.String(),
		"RAIL_MATTER_ID=" + r.Key.Matter.String(),
		"RAIL_GENERATION=" + strconv.FormatInt(r.Token.Generation, 10),
		"RAIL_RUN_ID=" + r.Token.Run.String(),
		"RAIL_ATTEMPT=" + strconv.Itoa(r.Attempt),
		"RAIL_DEADLINE=" + r.Deadline.UTC().Format(time.RFC3339),
	}
	if headerSafe(r.TraceParent) {
		env = append(env, "TRACEPARENT="+r.TraceParent)
	}
	if headerSafe(r.TraceState) {
		env = append(env, "TRACESTATE="+r.TraceState)
	}
	return env
}

// wait waits for the command, ending its group when ctx ends. Afterwards the pipes
// end within the grace, even when a stray descendant holds them open.
func (p *process) wait(ctx context.Context, grace time.Duration) error {
	exited, guarded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(guarded)
		p.guard(ctx, exited, grace)
	}()
	err := p.cmd.Wait()
	close(exited)
	<-guarded
	// The command is reaped, its number not yet given away again: numbers are
	// handed out in a circle, and a group keeps its own while a member lives.
	p.signal(syscall.SIGKILL)
	deadline := time.Now().Add(grace)
	_ = p.out.SetReadDeadline(deadline) // a pipe has deadlines
	_ = p.errs.SetReadDeadline(deadline)
	return err
}

// guard ends the group when ctx ends before the command does.
func (p *process) guard(ctx context.Context, exited <-chan struct{}, grace time.Duration) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		p.signal(syscall.SIGKILL)
	}
}

// signal sends s to the whole group; one that is gone is no error.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func (p *process) close() { closeAll(p.out, p.errs) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// tail keeps the end of what is written to it (errors are said last) and the hash
// of all.
type tail struct {
	end  []byte
	hash hash.Hash
}

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	if t.hash == nil {
		t.hash = sha256.New()
	}
	_, _ = t.hash.Write(p)
	t.end = append(t.end, p[max(0, len(p)-PreviewBytes):]...)
	t.end = append(t.end[:0], t.end[max(0, len(t.end)-PreviewBytes):]...)
	return len(p), nil
}

// attach adds the end of the command's standard error to e.
func (t *tail) attach(e *BuildError) *BuildError {
	if t.hash != nil {
		e.Preview, e.PreviewHash = bytes.Clone(t.end), hex.EncodeToString(t.hash.Sum(nil))
	}
	return e
}
