package audit

import (
	"testing"
	"time"
)

func TestDurationsAreToldAsPeopleSayThem(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"12ms": 12 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "5m": 5 * time.Minute, "3m5s": 185 * time.Second, "1h": time.Hour,
		"2h5m": 2*time.Hour + 5*time.Minute + 3*time.Second, "1d2h": 26*time.Hour + time.Minute, "30d": 720 * time.Hour, "1d": 24*time.Hour - time.Second,
	} {
		if got := rounded(d); got != want {
			t.Errorf("%s is told as %q, want %q", d, got, want)
		}
	}
}

func TestPausesAreToldApart(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		firms int64
		all   bool
	}{
		"dispatch is not paused": {0, false}, "dispatch is paused for 1 firm": {1, false}, "dispatch is paused for every firm": {0, true},
		"dispatch is paused for every firm, and for 2 firms by a pause of its own": {2, true},
	} {
		if got := pausesText(c.firms, c.all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
