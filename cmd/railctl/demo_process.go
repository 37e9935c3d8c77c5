package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"briefrail/internal/telemetry"
)

// process is one program that the demo runs. It is running until exited is closed.
type process struct {
	name   string // as people call it
	log    string // path
	listen string // address of its HTTP listener
	cmd    *exec.Cmd
	exited chan struct{}
}

// newProcess starts a program. Settings of the person's own shell must not reach
// it: they may name another database, or an account at AWS. last is the signal that it gets when the demo
// is killed.
func newProcess(name, path, log string, last syscall.Signal, args, settings []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(cleanEnv(os.Environ()), settings...)
	// an interrupt at the terminal is ours to handle, not theirs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr, last)
	return p, p.launch()
}

func cleanEnv(environ []string) (out []string) {
	for _, kv := range environ {
		if !slices.ContainsFunc([]string{"RAIL_", "BRIEF_", "PG", "AWS_", "OTEL_"}, func(p string) bool { return strings.HasPrefix(kv, p) }) {
			out = append(out, kv)
		}
	}
	return out
}

// launch starts the command from a thread that is set aside for it until it has
// exited: Linux ends a child with the thread that started it.
func (p *process) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its log
			close(p.exited)
		}
	}()
	return <-started
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// freeze and thaw are what a hanging machine does to a process: it neither runs nor
// ends, and its connections stay open.
func (p *process) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }

// stop ends the process in order, and after five seconds without asking.
func (p *process) stop() error {
	if p.ended() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
	_ = p.thaw()
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// ready waits until the program says where it listens and answers there.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	err := errors.New("it does not say where it listens")
	for {
		if p.listen == "" {
			p.listen = listenAddress(p.log)
		}
		if p.listen != "" {
			if err = telemetry.Healthcheck(ctx, "http://"+p.listen+"/readyz"); err == nil {
				return nil
			}
		}
		select {
		case <-p.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		case <-tick.C:
		}
	}
}

// listenAddress finds the address in a program's log: each logs it once it is bound,
// so that no port has to be guessed.
func listenAddress(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		var entry struct{ Listen string }
		if json.Unmarshal(line, &entry) == nil && entry.Listen != "" {
			return entry.Listen
		}
	}
	return ""
}

// counter reads the sum of a counter's series from the process's own metrics.
func (p *process) counter(ctx context.Context, name string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy on the way
	res, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", p.name, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("metrics of %s: %s", p.name, res.Status)
	}
	return sumSeries(res.Body, name)
}

func sumSeries(r io.Reader, name string) (sum float64, err error) {
	for s := bufio.NewScanner(r); s.Scan(); {
		series, value, ok := strings.Cut(s.Text(), " ")
		if !ok || (series != name && !strings.HasPrefix(series, name+"{")) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// lastLines is the end of a text file, indented.
func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-n):]
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "  " + strings.Join(lines, "\n  ")
}
