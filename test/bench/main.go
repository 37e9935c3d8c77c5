package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan says how much is measured: everything, or a quick look.
type plan struct {
	idle    int           // idle matters of the large database
	rounds  int           // turns of each side
	turn    time.Duration // length of one
	latency time.Duration
	watch   time.Duration // how long an idle worker is watched
	facts   int           // of the run with retention on
	paced   time.Duration // how long its times are taken
	only    string        // names of the measurements, empty for all
	clients int

	crossings int // of authority over a bucket, of each kind
}

func newPlan(quick bool) plan {
	if quick {
		return plan{idle: 100_000, rounds: 2, turn: 1500 * time.Millisecond, latency: 4 * time.Second, watch: 5 * time.Second, facts: 50_000, paced: 5 * time.Second, clients: 4, crossings: 20}
	}
	return plan{idle: 1_000_000, rounds: 5, turn: 2500 * time.Millisecond, latency: 12 * time.Second, watch: 15 * time.Second, facts: 1_000_000, paced: 12 * time.Second, clients: 4, crossings: 100}
}

func (p plan) wants(name string) bool {
	return p.only == "" || slices.Contains(strings.Split(p.only, ","), name)
}

func main() {
	quick := flag.Bool("quick", os.Getenv("BENCH") == "quick", "a shorter look at fewer idle matters (BENCH=quick)")
	write := flag.String("write", "", "document to write the table into, between its markers")
	profile := flag.String("cpuprofile", "", "file for a CPU profile of the claim and landing cycles")
	only := flag.String("only", "", "measure only these: latency,bus,cycle,unfenced,pauses,elsewhere,rivals,demand,drain,retention,scale,idle,busy,memory")
	fake := flag.Bool(serveFakeFlag, false, "be the fake bus of another bench, until the input ends")
	flag.Parse()
	if *fake {
		exitOn(serveFake(os.Stdin, os.Stdout))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := newPlan(*quick)
	p.only = *only
	exitOn(run(ctx, p, *write, *profile))
}

// serveFakeFlag has the command start itself as another process.
const serveFakeFlag = "serve-fake-bus"

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p plan, write, profile string) (err error) {
	b := &bench{plan: p, started: time.Now()}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, m := range []struct {
		name string
		do   func(context.Context) error
	}{
		// what waits for the disk comes before what fills it
		{"latency", b.latency},
		{"bus", b.busLatency},
		{"cycle", profiled(profile, b.cycle)},
		{"unfenced", b.unfenced},
		{"pauses", b.pauses},
		{"elsewhere", b.elsewhere},
		{"rivals", b.rivals},
		{"demand", b.demand},
		{"drain", b.drain},
		{"retention", b.retention},
		{"scale", b.scale},
		{"idle", b.idle},
		{"busy", b.busy},
		{"memory", b.memory},
	} {
		if !p.wants(m.name) {
			continue
		}
		b.say(m.name)
		if e := m.do(ctx); e != nil { // what was measured is shown all the same
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, e))
			b.say(e.Error())
		}
	}
	b.say("done")
	err = errors.Join(err, b.results.show(os.Stdout, b.machine))
	if write != "" && err == nil {
		return b.results.write(write, b.machine)
	}
	return err
}

// profiled records what the process does during one measurement.
func profiled(file string, do func(context.Context) error) func(context.Context) error {
	if file == "" {
		return do
	}
	return func(ctx context.Context) error {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return do(ctx)
	}
}
