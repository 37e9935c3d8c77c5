package audit

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestAStaleAnswerIsNoAnswer: were the loop to stop, its last zeros must not look
// healthy for ever.
func TestAStaleAnswerIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := NewCollector(nil, Options{CheckEvery: time.Minute})
	emitted := func() (valid, invalid int) {
		ch := make(chan prometheus.Metric, 100)
		c.emitInvariants(ch)
		close(ch)
		for m := range ch {
			if m.Write(&dto.Metric{}) != nil {
				invalid++
			} else {
				valid++
			}
		}
		return valid, invalid
	}
	c.keepRecent(map[string]Finding{"stuck_running": {Invariant: "stuck_running"}})
	if v, i := emitted(); v != 1 || i != 0 {
		t.Errorf("fresh: %d valid, %d invalid", v, i)
	}
	c.recentAt = time.Now().Add(-10 * time.Minute)
	if v, i := emitted(); v != 0 || i != 1 {
		t.Errorf("stale: %d valid, %d invalid", v, i)
	}
}

func TestWholeCheckIsSoonRepeatedAfterAFinding(t *testing.T) {
	t.Parallel()
	c := NewCollector(nil, Options{CheckEvery: time.Second, WholeEvery: time.Hour})
	c.keepWhole(map[string]Finding{"a": {Invariant: "a"}})
	if d := time.Until(c.nextWhole); d < 50*time.Minute {
		t.Errorf("next whole check in %s after a healthy one", d)
	}
	c.keepWhole(map[string]Finding{"a": {Invariant: "a", Violations: 1}})
	if d := time.Until(c.nextWhole); d > time.Minute {
		t.Errorf("next whole check in %s after a finding", d)
	}
}
