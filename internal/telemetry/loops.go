package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// LoopNames returns the closed set of loops that a program may run.
func LoopNames() []string {
	return []string{"claim", "sweep", "relay", "consume", "reconcile", "prune", "canary"}
}

// Loop is one loop that this program runs. Bound is how long it may go without
// turning, successfully or not, before the process counts as wedged; generous, as
// the answer to a wedge is a restart. Zero is no bound. Every is the longest pause
// that an idle loop means to take; it is exported, as an alarm that has to guess it
// is either deaf or a nuisance.
type Loop struct {
	Name  string
	Bound time.Duration
	Every time.Duration
}

// Loops is the heartbeat of a program's loops. Packages see it through an
// interface of their own with Progress and Failed. Its methods are safe for
// concurrent use and never panic, whatever they are given.
type Loops struct {
	classes []string
	names   []string
	m       loopMetrics
	mu      sync.Mutex
	beats   map[string]*beat
}

type beat struct {
	bound time.Duration
	moved time.Time // with its monotonic part: a clock step is not a wedge
}

type loopMetrics struct {
	progress   *prometheus.GaugeVec
	interval   *prometheus.GaugeVec
	iterations *prometheus.CounterVec
	errors     *prometheus.CounterVec
}

// NewLoops registers the loop metrics of the given loops, every series at its
// start: zero, or now for the time of last progress. Classes is the closed set of
// error classes; "other" is always one of them.
func NewLoops(reg prometheus.Registerer, classes []string, loops ...Loop) (*Loops, error) {
	l := &Loops{classes: withOther(classes), beats: map[string]*beat{}}
	now := time.Now()
	for _, lp := range loops {
		if !slices.Contains(LoopNames(), lp.Name) {
			return nil, fmt.Errorf("loop %.40q is none of %s", lp.Name, strings.Join(LoopNames(), ", "))
		}
		l.names = append(l.names, lp.Name)
		l.beats[lp.Name] = &beat{lp.Bound, now}
	}
	l.m = newLoopMetrics(reg)
	for _, lp := range loops {
		l.m.progress.WithLabelValues(lp.Name).Set(unixSeconds(now))
		l.m.interval.WithLabelValues(lp.Name).Set(lp.Every.Seconds())
	}
	for _, name := range withOther(l.names) {
		l.m.iterations.WithLabelValues(name)
		for _, c := range l.classes {
			l.m.errors.WithLabelValues(name, c)
		}
	}
	return l, nil
}

func withOther(set []string) []string {
	out := make([]string, 0, len(set)+1)
	for _, s := range append(slices.Clone(set), other) {
		if s = validLabel(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func newLoopMetrics(reg prometheus.Registerer) loopMetrics {
	f := promauto.With(reg)
	return loopMetrics{
		progress: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rail_loop_last_progress_timestamp_seconds", Help: "When each loop last finished a turn without an error, idle turns included.",
		}, []string{"loop"}),
		interval: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rail_loop_interval_seconds", Help: "Longest pause that each loop means to take between two turns.",
		}, []string{"loop"}),
		iterations: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_loop_iterations_total", Help: "Turns of each loop that ended without an error.",
		}, []string{"loop"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_loop_errors_total", Help: "Turns of each loop that ended in an error, by class.",
		}, []string{"loop", "class"}),
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Progress records that a loop has finished a turn, idle or not.
func (l *Loops) Progress(loop string) {
	name := SafeLabel(loop, l.names...)
	l.m.iterations.WithLabelValues(name).Inc()
	if now := time.Now(); l.move(name, now) {
		l.m.progress.WithLabelValues(name).Set(unixSeconds(now))
	}
}

// Failed records that a turn of a loop has ended in an error. The loop still
// turns: a database that is away must not get the process restarted.
func (l *Loops) Failed(loop, class string) {
	name := SafeLabel(loop, l.names...)
	l.m.errors.WithLabelValues(name, SafeLabel(class, l.classes...)).Inc()
	l.move(name, time.Now())
}

func (l *Loops) move(name string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.beats[name]
	if ok {
		b.moved = now
	}
	return ok
}

// wedged returns what stands still past its bound, one sentence a loop.
func (l *Loops) wedged() (still []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.names {
		b := l.beats[name]
		if age := time.Since(b.moved); b.bound > 0 && age > b.bound {
			still = append(still, fmt.Sprintf("%s has not turned for %s", name, age.Round(time.Second)))
		}
	}
	return still
}
