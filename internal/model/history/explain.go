package history

import (
	"errors"
	"fmt"

	"briefrail/internal/model/specs"
)

// way is a step that the model offers: where it leads, and what else the transaction
// must have done.
type way struct {
	kind  specs.LedgerKind
	row   specs.Row
	other func(*step) error
}

// ways lists what the model offers from a row; now only bounds how many demands are
// tried.
func (m *matter) ways(old, now specs.Row) []way {
	var out []way
	switch old.Status {
	case specs.StatusQueued:
		out = append(out, way{specs.LedgerClaims, old.Claim(after), m.opens})
	case specs.StatusRunning:
		out = append(out,
			way{specs.LedgerLands, old.Land(old.Claimed), m.closes("landed", 1)},
			way{specs.LedgerFails, old.Fail(m.most, false), m.closes("failed", 0)},
			way{specs.LedgerGivesUp, old.Fail(m.most, true), m.closes("failed", 0)},
			way{specs.LedgerReleases, old.Release(), m.closes("released", 0)},
			way{specs.LedgerRenews, old.Renew(), alone},
		)
		if old.Expired {
			out = append(out, way{specs.LedgerSweeps, old.Fail(m.most, false), m.closes("expired", 0)})
		}
	}
	if now.Requested > old.Requested {
		out = append(out, way{specs.LedgerDemand, old.Demand(now.Requested - old.Requested), alone})
	}
	return out
}

// explain finds the step of the model that a recorded one is. A lease may run out
// between the write and the instant that was noted.
func (m *matter) explain(s *step, old, now specs.Row) (specs.LedgerKind, error) {
	var offered []string
	var disagree error
	for _, w := range m.ways(old, now) {
		if got := w.row; withoutPrev(got) != now && !(now.Expired && withoutPrev(got.Lapse()) == now) {
			offered = append(offered, w.kind.String())
			continue
		}
		err := w.other(s)
		if err == nil {
			return w.kind, nil
		}
		disagree = errors.Join(disagree, fmt.Errorf("%s: %w", w.kind, err))
	}
	if disagree != nil {
		return 0, fmt.Errorf("the row moved as in a step of the model, and the rest does not agree: %w", disagree)
	}
	return 0, fmt.Errorf("none of what the model offers here leads to that row (%q)", offered)
}

// withoutPrev leaves out what no column says.
func withoutPrev(r specs.Row) specs.Row {
	r.Prev = 0
	return r
}

// opens: a claim brings one run, under an id and a number that never were.
func (m *matter) opens(s *step) error {
	if len(s.frames) != 0 || len(s.runs) != 1 || s.runs[0].Old != nil || s.runs[0].New == nil {
		return errors.New("a claim opens one run, and does nothing else")
	}
	run, job := s.runs[0].New, s.job.New
	if run.ID != job.Run || run.Generation != job.Claimed || run.Attempt != job.Attempts || run.Outcome != "running" {
		return errors.New("the run is not that of the claim")
	}
	for id, r := range m.runs {
		if id == run.ID || r.Generation >= run.Generation {
			return fmt.Errorf("its token is not new: run %s", r)
		}
	}
	return nil
}

// closes: what ends a claim closes the run that the row named, with this outcome, and
// brings so many frames, all of them of that run's number.
func (m *matter) closes(outcome string, frames int) func(*step) error {
	return func(s *step) error {
		if len(s.runs) != 1 || s.runs[0].Old == nil || s.runs[0].New == nil || len(s.frames) != frames {
			return fmt.Errorf("it closes one run and brings %d frames", frames)
		}
		was, run := s.runs[0].Old, s.runs[0].New
		known, closed := m.runs[run.ID], *was
		closed.Outcome = outcome
		if known == nil || *known != *was || was.Outcome != "running" || *run != closed {
			return fmt.Errorf("a run that was %s is closed as %s, and becomes %s", known, outcome, run)
		}
		if run.ID != m.job.Run || run.Generation != m.job.Claimed {
			return fmt.Errorf("it is by run %s, and the row served run %s", short(run.ID), short(m.job.Run))
		}
		for _, f := range s.frames {
			if f.Old != nil || f.New == nil || f.New.Run != run.ID || f.New.Generation != run.Generation {
				return errors.New("the frame is not that of the run")
			}
		}
		return nil
	}
}

// alone: nothing but the row is touched.
func alone(s *step) error {
	if len(s.runs)+len(s.frames) != 0 {
		return errors.New("it touches the row alone")
	}
	return nil
}

// aside judges a step without the row: a late write was refused and is noted, once, on
// a run that had lost its claim before.
func (m *matter) aside(s *step) error {
	if len(s.frames) != 0 || len(s.runs) != 1 || s.runs[0].Old == nil || s.runs[0].New == nil {
		return errors.New("runs or frames come, go or change without the row")
	}
	was, run := *s.runs[0].Old, *s.runs[0].New
	known := m.runs[was.ID]
	switch {
	case known == nil || *known != was:
		return fmt.Errorf("run %s was last seen as %s", &was, known)
	case m.job != nil && m.job.Run == run.ID:
		return errors.New("a write is refused to the run that holds the claim")
	case was.Outcome == "running" || was.Outcome == "landed" || !was.Late.IsZero() || run.Late.IsZero():
		return errors.New("no late write of an ended run")
	}
	was.Late = run.Late
	if was != run {
		return errors.New("more than the late write is noted on a run that has ended")
	}
	m.runs[run.ID] = &run
	m.counts[LateRefused]++
	return nil
}
