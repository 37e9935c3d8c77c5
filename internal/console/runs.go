package console

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// runsView lists attempts.
type runsView struct {
	Firm, Outcome, Worker string
	Late                  bool
	Hours                 int // 0: whatever is kept
	Outcomes              []string
	Runs                  []runRow
	Full                  bool // there may be more
}

// mostListed is how many rows a list has.
const mostListed = 100

// errored are the outcomes that an attempt is looked at for.
func errored() []string { return []string{"failed", "expired", "fenced", "released", "cancelled"} }

func (c *Console) readRuns(ctx context.Context, q url.Values) (any, error) {
	v := runsView{Firm: q.Get("firm"), Outcome: q.Get("outcome"), Worker: q.Get("worker"), Late: q.Get("late") != "", Outcomes: append(errored(), "landed", "running")}
	f := audit.RunFilter{Outcome: v.Outcome, Worker: v.Worker, Late: v.Late, Limit: mostListed}
	var err error
	if f.Firm, err = firmOf(v.Firm); err != nil {
		return nil, err
	}
	if v.Outcome != "" && !slices.Contains(v.Outcomes, v.Outcome) {
		return nil, wrongf("outcome=%q: use one of %q", clip(40, v.Outcome), v.Outcomes)
	}
	if v.Hours, err = hoursOf(q.Get("hours")); err != nil {
		return nil, err
	}
	now := moments{time.Now()}
	if v.Hours > 0 {
		f.Since = now.now.Add(-time.Duration(v.Hours) * time.Hour)
	}
	rows, err := c.runsOf(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, r := range rows[:min(len(rows), mostListed)] {
		v.Runs = append(v.Runs, newRunRow(now, r))
	}
	v.Full = len(rows) >= mostListed
	return v, nil
}

// runsOf lists runs; without an outcome those that ended in any error. Each outcome
// is a question of its own, the newest of all are among their newest.
func (c *Console) runsOf(ctx context.Context, f audit.RunFilter) ([]audit.RunRow, error) {
	if f.Outcome != "" || f.Late {
		return audit.Runs(ctx, c.opts.DB, f)
	}
	var all []audit.RunRow
	for _, f.Outcome = range errored() {
		rows, err := audit.Runs(ctx, c.opts.DB, f)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b audit.RunRow) int { return b.StartedAt.Compare(a.StartedAt) })
	return all, nil
}

// firmOf reads a firm; empty text is the nil UUID, every firm.
func firmOf(text string) (rail.UUID, error) {
	if text == "" {
		return rail.UUID{}, nil
	}
	id, err := rail.ParseUUID(text)
	if err != nil {
		return id, wrongf("firm: %w", err)
	}
	return id, nil
}

// hoursOf reads a number of hours, up to ten years.
func hoursOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 10*366*24 {
		return 0, wrongf("hours=%q: give a whole number from 0", clip(20, text))
	}
	return n, nil
}
