package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

func packer(sinks ...Sink) *Relay {
	return New(nil, prometheus.NewRegistry(), Options{Sinks: sinks, Inflight: 1})
}

func fact(trace string) outbox.Pending {
	return outbox.Pending{Fact: outbox.Fact{Event: rail.NewUUID(), Firm: rail.NewUUID(), Name: "document.uploaded"}, TraceState: trace}
}

// field report 11: calls are cut by number and by bytes, and one fact that is too
// large has a call of its own, so that it spoils no other.
func TestCallsAreCutByNumberAndBytes(t *testing.T) {
	t.Parallel()
	small, large := fact(""), fact(strings.Repeat("x", 500))
	least := nudge.Size(nudgeOf(small))
	if n := nudge.Size(nudgeOf(large)); n <= 2*least || n > 3*least {
		t.Fatalf("a large fact has %d bytes, a small one %d", n, least)
	}
	r := packer(Sink{Name: "eventbridge", Entries: 10, Bytes: 100 * least}, Sink{Name: "sqs", Entries: 10, Bytes: 3 * least})
	for name, c := range map[string]struct {
		facts []outbox.Pending
		want  string
	}{
		"none":          {nil, "[]"},
		"by bytes":      {[]outbox.Pending{small, small, small, small, small, small, small}, "[3 3 1]"},
		"a large first": {[]outbox.Pending{large, small, small, small}, "[1 3]"},
		"a large last":  {[]outbox.Pending{small, small, large}, "[2 1]"},
	} {
		if got := sizes(r.pack(c.facts)); got != c.want {
			t.Errorf("%s: calls of %s, want %s", name, got, c.want)
		}
	}
	tiny := packer(Sink{Name: "eventbridge", Entries: 10, Bytes: 10})
	if got := sizes(tiny.pack([]outbox.Pending{small, small})); got != "[1 1]" {
		t.Errorf("facts above the limit: calls of %s", got)
	}
	many := make([]outbox.Pending, 23)
	for i := range many {
		many[i] = small
	}
	if got := sizes(packer(Sink{Name: "eventbridge", Entries: 10, Bytes: 1 << 20}).pack(many)); got != "[10 10 3]" {
		t.Errorf("by number: calls of %s", got)
	}
}

func sizes(calls []call) string {
	n := []int{}
	for _, c := range calls {
		n = append(n, len(c.facts))
	}
	return fmt.Sprint(n)
}

// field report 19: what is not known is absent. field report 20: a code of any sort
// makes no series and no panic.
func TestMetricsOfTheUnknown(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, []string{"eventbridge"}, newHand())
	series := func() (n int, parked bool) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
			parked = parked || f.GetName() == "rail_outbox_parked_rows"
		}
		return n, parked
	}
	before, parked := series()
	if parked {
		t.Error("parked rows are exported before they were counted")
	}
	m.parked.set(3, nil)
	if _, parked := series(); !parked {
		t.Error("parked rows are not exported")
	}
	m.parked.set(0, errors.New("away"))
	for i := range 1000 {
		m.failed(fmt.Sprintf("Code\xff%d", i))
	}
	if after, parked := series(); after != before || parked {
		t.Errorf("%d series, before %d; parked %v", after, before, parked)
	}
}
