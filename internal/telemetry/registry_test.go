package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func newLoops(t *testing.T, reg prometheus.Registerer, loops ...Loop) *Loops {
	t.Helper()
	l, err := NewLoops(reg, []string{"08", "57", ""}, loops...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Field report 20: names of tenants and broken text as label values neither panic
// nor add series.
func TestFieldReport20HostileLabels(t *testing.T) {
	t.Parallel()
	reg := NewRegistry(BuildInfo{"\xff", "\xff", "go", "x"})
	loops := newLoops(t, reg, Loop{Name: "claim"}, Loop{Name: "sweep"})
	names := []string{"rail_build_info", "rail_loop_last_progress_timestamp_seconds", "rail_loop_iterations_total", "rail_loop_errors_total"}
	before, err := testutil.GatherAndCount(reg, names...)
	if err != nil {
		t.Fatal(err)
	}
	// 1 build, 2 loops, 3 with other, 3 by the classes 08, 57 and other
	if want := 1 + 2 + 3 + 3*3; before != want {
		t.Errorf("%d series at the start, want %d", before, want)
	}
	for i := range 50000 {
		firm := fmt.Sprintf("firm-%d\xff", i)
		loops.Progress(firm)
		loops.Failed("claim", firm)
		loops.Failed(firm, "08")
	}
	after, err := testutil.GatherAndCount(reg, names...)
	if err != nil || after != before {
		t.Errorf("%d series, then %d, %v", before, after, err)
	}
	if n := testutil.ToFloat64(loops.m.errors.WithLabelValues("claim", other)); n != 50000 {
		t.Errorf("counted %v as other", n)
	}
	for _, s := range []string{"\xff", "", "claims", "other"} {
		if got := SafeLabel(s, "claim", "sweep"); got != other {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestUnknownLoopIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewLoops(prometheus.NewRegistry(), nil, Loop{Name: "\xff"}); err == nil || !strings.Contains(err.Error(), "none of claim") {
		t.Errorf("got %v", err)
	}
}

func TestLoopMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loops := newLoops(t, prometheus.NewRegistry(), Loop{"relay", time.Minute, time.Second}, Loop{"prune", 0, 0})
		seen := func() float64 { return testutil.ToFloat64(loops.m.progress.WithLabelValues("relay")) }
		start := seen()
		if n := testutil.ToFloat64(loops.m.interval.WithLabelValues("relay")); n != 1 {
			t.Errorf("an interval of %v s", n)
		}
		time.Sleep(50 * time.Second)
		loops.Failed("relay", "57")
		if seen() != start {
			t.Error("a failed turn counts as progress")
		}
		time.Sleep(50 * time.Second)
		if still := loops.wedged(); len(still) != 0 {
			t.Errorf("a loop that fails is not wedged: %v", still)
		}
		time.Sleep(11 * time.Second)
		if still := loops.wedged(); len(still) != 1 || still[0] != "relay has not turned for 1m1s" {
			t.Errorf("got %v", still)
		}
		loops.Progress("relay")
		if still := loops.wedged(); len(still) != 0 || seen() != start+111 {
			t.Errorf("got %v after progress at %v", still, seen()-start)
		}
	})
}

func TestMetricsPassLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	newLoops(t, reg, Loop{Name: "claim"})
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if b := Version("v1.2.3", "railctl"); b.Version != "v1.2.3" || b.Component != "railctl" || !strings.HasPrefix(b.GoVersion, "go") {
		t.Errorf("got %+v", b)
	}
	if b := Version("", "x"); b.Version == "" || b.Revision == "" {
		t.Errorf("got %+v", b)
	}
}

// failing is a collector whose query fails.
type failing struct{ err error }

func (f failing) Describe(ch chan<- *prometheus.Desc) {}
func (f failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("rail_jobs", "x", nil, nil), f.err)
}
