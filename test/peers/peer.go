package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

//go:embed rail.pml
var promela []byte

//go:embed rail.py
var python []byte

// demands and attempts are those of every bound.
const demands, attempts = 2, 2

// peer is a way to search the model.
type peer struct {
	name    string
	own     bool   // it is the checker of this module
	missing string // why it cannot run, empty where it can

	// command prepares one search; preparing is not measured.
	command func(ctx context.Context, b bound) (*exec.Cmd, error)
	output  *regexp.Regexp // states and transitions are its two groups
	initial int            // transitions that it counts beside the model's own

	runs    map[bound][]result
	stopped bound // where it was too slow, none where it never was
}

// counts is what peers must agree on.
type counts struct{ states, transitions int }

func (c counts) String() string {
	return fmt.Sprintf("%d states, %d transitions", c.states, c.transitions)
}

// result is one run: what was found, the seconds of a core, and the most memory that
// was resident, in bytes.
type result struct {
	counts
	seconds  float64
	resident float64
}

var errTooLong = errors.New("it took too long")

// newPeers lists those that this machine can run and those that it cannot. Their
// files are written to dir.
func newPeers(dir string) ([]*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	peers := []*peer{
		goPeer(self, "Go"),
		goPeer(self, "Go, everything judged", "-judge"),
		spinPeer(dir),
		pythonPeer(dir),
	}
	for _, q := range peers {
		q.runs = make(map[bound][]result)
	}
	return peers, errors.Join(
		os.WriteFile(filepath.Join(dir, "rail.pml"), promela, 0o644),
		os.WriteFile(filepath.Join(dir, "rail.py"), python, 0o644))
}

var twoNumbers = regexp.MustCompile(`^(\d+) (\d+)\n$`)

// goPeer is this program as its own child, so that it is measured as the others are.
func goPeer(self, name string, flags ...string) *peer {
	return &peer{name: name, own: true, output: twoNumbers, command: func(ctx context.Context, b bound) (*exec.Cmd, error) {
		c := exec.CommandContext(ctx, self, append(flags, "-search", b.String())...)
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		return c, nil
	}}
}

// searchHere is the child's part.
func searchHere(ctx context.Context, text string, judged bool) error {
	bounds, err := parseBounds(text)
	if err != nil {
		return err
	}
	found, err := search(ctx, bounds[0], judged)
	if err != nil {
		return err
	}
	fmt.Println(found.states, found.transitions)
	return nil
}

// search searches one bound and judges what the others judge, or all properties.
func search(ctx context.Context, b bound, judged bool) (counts, error) {
	m, err := specs.Ledger(specs.Options{Workers: b.workers, Faults: b.faults, Demands: demands, Attempts: attempts})
	if err != nil {
		return counts{}, err
	}
	var properties []model.Property[specs.LedgerState]
	for _, p := range m.Properties {
		if judged || p.Kind == model.Never {
			properties = append(properties, p)
		}
	}
	m.Properties = properties
	g, err := model.Search(ctx, m, model.Options{Parallel: 1})
	if err != nil {
		return counts{}, err
	}
	for _, v := range g.Verdicts() {
		// the smallest bounds are too small for what must be reachable
		if !v.OK && v.Kind != model.Reachable {
			return counts{}, fmt.Errorf("%s is broken: %s", v.Name, strings.Join(v.Trace, "; "))
		}
	}
	return counts{g.States(), g.Transitions()}, nil
}

func pythonPeer(dir string) *peer {
	q := &peer{name: "Python", output: twoNumbers, command: func(ctx context.Context, b bound) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, "python3", filepath.Join(dir, "rail.py"),
			strconv.Itoa(b.workers), strconv.Itoa(b.faults), strconv.Itoa(demands), strconv.Itoa(attempts)), nil
	}}
	if _, err := exec.LookPath("python3"); err != nil {
		q.missing = "python3 is not installed"
	}
	return q
}

// spinPeer has SPIN write a checker for each bound, and the C compiler build it.
func spinPeer(dir string) *peer {
	built := make(map[bound]string)
	q := &peer{
		name:    "SPIN",
		output:  regexp.MustCompile(`(?s)errors: 0.*?(\d+) states, stored.*?(\d+) transitions`),
		initial: 1,
	}
	q.command = func(ctx context.Context, b bound) (*exec.Cmd, error) {
		if built[b] == "" {
			pan, err := buildSpin(ctx, dir, b)
			if err != nil {
				return nil, err
			}
			built[b] = pan
		}
		// a table of about twice as many slots as there are states
		slots := 10 + 2*b.workers + bits.Len(uint(b.faults))
		return exec.CommandContext(ctx, built[b], fmt.Sprintf("-w%d", slots)), nil
	}
	if _, err := exec.LookPath("spin"); err != nil {
		q.missing = "spin is not installed (Debian: apt-get install spin)"
	} else if out, err := exec.Command("spin", "-V").Output(); err != nil || !strings.Contains(string(out), "Spin Version") {
		q.missing = "the program spin is another one than the model checker"
	} else if _, err := exec.LookPath("cc"); err != nil {
		q.missing = "SPIN wants a C compiler, cc (Debian: apt-get install gcc)"
	}
	return q
}

func buildSpin(ctx context.Context, dir string, b bound) (string, error) {
	dir = filepath.Join(dir, fmt.Sprintf("spin-%d-%d", b.workers, b.faults))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, line := range [][]string{
		{
			"spin", fmt.Sprintf("-DN=%d", b.workers), fmt.Sprintf("-DF=%d", b.faults), fmt.Sprintf("-DD=%d", demands), fmt.Sprintf("-DA=%d", attempts),
			"-o2", "-a", filepath.Join("..", "rail.pml"),
		},
		{"cc", "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"},
	} {
		c := exec.CommandContext(ctx, line[0], line[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, out)
		}
	}
	return filepath.Join(dir, "pan"), nil
}

// measure runs one search.
func (q *peer) measure(ctx context.Context, b bound, limit time.Duration) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLong)
	defer cancel()
	c, err := q.command(ctx, b)
	if err != nil {
		return result{}, err
	}
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	if err != nil {
		return result{}, fmt.Errorf("%w: %s", err, out)
	}
	m := q.output.FindSubmatch(out)
	if m == nil || strings.Contains(string(out), "search depth too small") {
		return result{}, fmt.Errorf("no whole search in %s", out)
	}
	var r result
	r.states, _ = strconv.Atoi(string(m[1])) // the pattern has digits
	r.transitions, _ = strconv.Atoi(string(m[2]))
	r.transitions -= q.initial
	r.seconds = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	r.resident = residentMost(c.ProcessState)
	return r, nil
}

// residentMost is the most memory that the process had resident, in bytes.
func residentMost(s *os.ProcessState) float64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return float64(usage.Maxrss)
	}
	return float64(usage.Maxrss) * 1024
}
