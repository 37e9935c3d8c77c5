package relay

import "time"

// pace is the rate at which a sink is called. It is unlimited until the sink
// throttles; then it falls by half of the share of calls that were throttled, and
// climbs steadily with the others: at half of them throttled it settles where
// both are equal (field report 12). Not safe for concurrent use.
type pace struct {
	rate           float64 // calls a second; 0 for no limit
	next           time.Time
	since          time.Time // begin of the window that is counted
	calls, refused int
}

const (
	paceWindow = time.Second
	paceHasty  = 8   // refused calls that end a window early
	paceFloor  = 0.5 // calls a second, so that the sink's recovery is seen
	paceClimb  = 20  // calls a second, more with every window
	paceFree   = 200 // calls a second, above which there is no limit
)

// reserve takes the next call's turn and returns how long to wait for it.
func (p *pace) reserve(now time.Time) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(time.Duration(float64(time.Second) / p.rate))
	return at.Sub(now)
}

// answered counts an answer.
func (p *pace) answered(now time.Time, throttled bool) {
	if p.since.IsZero() {
		p.since = now
	}
	p.calls++
	if throttled {
		p.refused++
	}
	if age := now.Sub(p.since); age >= paceWindow || p.refused >= paceHasty {
		p.adjust(max(age, time.Millisecond))
		p.since, p.calls, p.refused = now, 0, 0
	}
}

func (p *pace) adjust(age time.Duration) {
	share := float64(p.refused) / float64(p.calls)
	if p.refused > 0 {
		measured := float64(p.calls) / age.Seconds()
		if p.rate <= 0 || measured < p.rate {
			p.rate = measured
		}
		p.rate = max(paceFloor, p.rate*(1-share/2))
	}
	if p.rate > 0 && p.refused < p.calls {
		p.rate += paceClimb * (1 - share) * min(age, 2*paceWindow).Seconds()
		if p.rate > paceFree {
			p.rate = 0
		}
	}
}
