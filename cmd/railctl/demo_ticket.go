package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// ticket is the job row as the screen shows it.
type ticket struct {
	audit.JobRow
	worker string // of the live claim
	left   time.Duration
	lapsed bool // the lease has run out and nobody has noticed yet
}

type ticketColumn struct {
	head  string
	width int // negative: left-aligned
}

// ticketColumns are 77 characters wide together: with the margin they fit into 80.
func ticketColumns() []ticketColumn {
	return []ticketColumn{
		{"status", -7},
		{"requested", 9},
		{"claimed", 7},
		{"landed", 6},
		{"rebuild", -7},
		{"run", -8},
		{"worker", -6},
		{"lease", 6},
		{"tries", 5},
	}
}

const ticketWidth = 77

func ticketHead() string {
	cells := make([]string, 0, 9)
	for _, c := range ticketColumns() {
		cells = append(cells, fmt.Sprintf("%*s", c.width, c.head))
	}
	return strings.Join(cells, "  ")
}

func padded(column int, cell string) string {
	return fmt.Sprintf("%*s", ticketColumns()[column].width, cell)
}

// cells are the row's values as text, in the order of the columns.
func (t ticket) cells() [9]string {
	c := [9]string{
		t.Status, strconv.FormatInt(t.Requested, 10), strconv.FormatInt(t.Claimed, 10), strconv.FormatInt(t.Landed, 10),
		"-", "-", "-", "-", strconv.Itoa(t.Attempts),
	}
	if t.RebuildNeeded {
		c[4] = "needed"
	}
	if t.Status == "running" {
		c[5], c[6], c[7] = short(t.RunID), t.worker, fmt.Sprintf("%.1f s", t.left.Seconds())
	}
	if t.lapsed {
		c[7] = "over"
	}
	return c
}

// shown is what makes a new row: all but the seconds of the lease.
func (t ticket) shown() [9]string {
	c := t.cells()
	if !t.lapsed {
		c[7] = ""
	}
	return c
}

func (t ticket) color() style {
	switch t.Status {
	case "idle":
		return styleQuiet
	case "running":
		return styleWork
	case "parked":
		return styleBad
	}
	return styleWait
}

// meaning is the row in words, for a wide terminal.
func (t ticket) meaning() string {
	switch {
	case t.lapsed:
		return "nobody has heard of worker " + t.worker
	case t.RebuildNeeded:
		return "a follow-up is due"
	case t.Status == "running":
		return "worker " + t.worker + " builds"
	case t.Status == "queued" && t.Attempts > 0:
		return "to be tried again"
	case t.Status == "queued" && t.Priority == int16(rail.Interactive):
		return "waits for a worker"
	case t.Status == "queued":
		return "waits for quiet"
	case t.Status == "idle":
		return "the Brief is current"
	}
	return t.Status
}

// short is the beginning of an id: enough to tell a few apart.
func short(id fmt.Stringer) string { return id.String()[:8] }

// look reads the row once. Before the first demand there is none, and all is zero.
func (d *demo) look(ctx context.Context) (ticket, error) {
	j, err := audit.ReadJob(ctx, d.stage.pool, d.key)
	if errors.Is(err, audit.ErrNotFound) {
		return ticket{}, nil
	}
	if err != nil {
		return ticket{}, err
	}
	t := ticket{JobRow: j}
	if j.LeaseExpiresAt != nil {
		t.left = max(0, time.Until(*j.LeaseExpiresAt))
		t.lapsed = t.left == 0
		t.worker, err = d.workerOf(ctx, t)
	}
	return t, err
}

// workerOf reads who has a claim; a run never changes hands.
func (d *demo) workerOf(ctx context.Context, t ticket) (string, error) {
	if name, ok := d.names[t.RunID]; ok {
		return name, nil
	}
	r, err := audit.ReadRun(ctx, d.stage.pool, t.RunID)
	if err != nil {
		return "", err
	}
	d.names[t.RunID] = r.Worker
	return r.Worker, nil
}

// watch shows the row and each of its changes until enough says so. what names the
// thing waited for, for the error of a wait that took too long.
func (d *demo) watch(ctx context.Context, what string, enough func(ticket) bool) error {
	return d.poll(ctx, what, func(ctx context.Context) (bool, error) {
		t, err := d.look(ctx)
		if err != nil {
			return false, err
		}
		if d.seen = t; t.Requested > 0 {
			d.screen.row(t)
		}
		return enough(t), nil
	})
}

// poll asks until it is enough, as long as the programs run and patience lasts.
func (d *demo) poll(ctx context.Context, what string, enough func(context.Context) (bool, error)) error {
	patience, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := enough(patience)
		if patience.Err() != nil {
			return fmt.Errorf("waited %s for %s: %w", span(demoPatience), what, patience.Err())
		}
		if err == nil {
			err = d.stage.died()
		}
		if err != nil || ok {
			return err
		}
		select {
		case <-patience.Done():
		case <-tick.C:
		}
	}
}

// watchFor shows the row for some time.
func (d *demo) watchFor(ctx context.Context, length time.Duration) error {
	end := time.Now().Add(length)
	return d.watch(ctx, "time to pass", func(ticket) bool { return time.Now().After(end) })
}

// watchIdle shows the row until nothing is owed.
func (d *demo) watchIdle(ctx context.Context) error {
	return d.watch(ctx, "the Brief to be current", func(t ticket) bool { return t.Status == "idle" })
}

// history is all that the ledger holds of the matter, oldest first.
type history struct {
	facts  []audit.FactRow
	runs   []audit.RunRow
	frames []audit.FrameRow
}

const historyLimit = 100_000

func (d *demo) history(ctx context.Context) (h history, err error) {
	k := d.key
	if h.facts, err = audit.Outbox(ctx, d.stage.pool, audit.FactFilter{Firm: k.Firm, Matter: k.Matter, Limit: historyLimit}); err != nil {
		return h, err
	}
	if h.runs, err = audit.Runs(ctx, d.stage.pool, audit.RunFilter{Firm: k.Firm, Matter: k.Matter, Limit: historyLimit}); err != nil {
		return h, err
	}
	h.frames, err = audit.Frames(ctx, d.stage.pool, k)
	slices.Reverse(h.facts)
	slices.Reverse(h.runs)
	slices.Reverse(h.frames)
	return h, err
}

// since leaves out what an earlier look had already.
func (h history) since(old history) history {
	return history{h.facts[len(old.facts):], h.runs[len(old.runs):], h.frames[len(old.frames):]}
}

// named keeps the facts of one name.
func (h history) named(name string) (out []audit.FactRow) {
	for _, f := range h.facts {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// demanded counts the facts that became demand.
func demanded(facts []audit.FactRow) (n int) {
	for _, f := range facts {
		if f.Verdict == "demanded" {
			n++
		}
	}
	return n
}
