package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"briefrail/internal/model/specs"
)

// Options say what the recorded programs were told.
type Options struct {
	Attempts uint16 // before a job is parked; 0: never
}

// Report counts what was seen, by the words of the model and some of our own.
type Report struct {
	Matters, Steps int
	Counts         map[string]int
}

// Words for what the model has no kind of step for.
const (
	LateRefused = "late writes refused"
	FollowUps   = "follow-ups queued by a landing"
	LapsedLands = "landed though the lease had lapsed"
	Parked      = "parked"
	Revived     = "revived by demand"
)

func (r Report) String() string {
	parts := make([]string, 0, len(r.Counts))
	for _, word := range slices.Sorted(maps.Keys(r.Counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", word, r.Counts[word]))
	}
	return fmt.Sprintf("%d steps of %d matters: %s", r.Steps, r.Matters, strings.Join(parts, ", "))
}

// NoStep is a recorded step that is none of the model's.
type NoStep struct {
	Matter string
	N      int64  // of the step's first change
	Why    string // what disagrees
	Story  string // the matter's last steps, one a line, the wrong one last
}

func (e *NoStep) Error() string {
	return fmt.Sprintf("matter %s, change %d is no step of the model: %s\n%s", e.Matter, e.N, e.Why, e.Story)
}

// Check holds every step of every matter to the model. The error is a *NoStep: that of
// the smallest number.
func Check(changes []Change, o Options) (Report, error) {
	report := Report{Counts: map[string]int{}}
	var worst *NoStep
	for name, all := range steps(changes) {
		m := &matter{most: o.Attempts, runs: map[string]*Run{}, counts: report.Counts}
		report.Matters++
		for i, s := range all {
			report.Steps++
			if err := m.take(s); err != nil {
				if worst == nil || s.first.N < worst.N {
					worst = &NoStep{name, s.first.N, err.Error(), story(all[max(0, i-14) : i+1])}
				}
				break
			}
		}
	}
	if worst != nil {
		return report, worst
	}
	return report, nil
}

func story(all []*step) string {
	lines := make([]string, len(all))
	for i, s := range all {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

// matter is what is known of one after its steps so far.
type matter struct {
	most   uint16
	job    *Job
	prev   int64           // claimed before the live claim
	runs   map[string]*Run // as last seen
	counts map[string]int
}

// take judges one step and goes on from where it led.
func (m *matter) take(s *step) error {
	switch {
	case s.jobs > 1:
		return fmt.Errorf("%d changes of the row in one transaction", s.jobs)
	case s.job == nil:
		return m.aside(s)
	case !sameJob(s.job.Old, m.job):
		return fmt.Errorf("the row was left as %s: a step is missing", m.job)
	}
	old, now, err := rows(s.job, s.first.At, m.prev)
	if err != nil {
		return err
	}
	if !now.Sound() {
		return errors.New("the row breaks its own constraints")
	}
	did, err := m.explain(s, old, now)
	if err != nil {
		return err
	}
	m.note(did, old, now)
	m.advance(s, did)
	return nil
}

// note counts a step, and the silent one before it: nothing is written when a lease
// runs out.
func (m *matter) note(did specs.LedgerKind, old, now specs.Row) {
	m.counts[did.String()]++
	if old.Expired {
		m.counts[specs.LedgerLapses.String()]++
	}
	for word, seen := range map[string]bool{
		FollowUps:   did == specs.LedgerLands && now.Status == specs.StatusQueued,
		LapsedLands: did == specs.LedgerLands && old.Expired,
		Parked:      now.Status == specs.StatusParked && old.Status != specs.StatusParked,
		Revived:     old.Status == specs.StatusParked && now.Status == specs.StatusQueued,
	} {
		if seen {
			m.counts[word]++
		}
	}
}

func (m *matter) advance(s *step, did specs.LedgerKind) {
	if did == specs.LedgerClaims {
		m.prev = s.job.Old.Claimed
	}
	m.job = s.job.New
	for _, r := range s.runs {
		m.runs[r.New.ID] = r.New
	}
}

func sameJob(a, b *Job) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
