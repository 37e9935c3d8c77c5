package console

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

// mostStale is how many stale matters the first page lists.
const mostStale = 25

// nowView is the first page.
type nowView struct {
	At       moment `json:"-"`
	Owing    int64  // matters that owe a build
	Oldest   moment
	Jobs     audit.Counts
	Stale    []staleRow
	Firms    []firmRow
	Pauses   []pauseRow
	Facts    factsView
	Canary   moment
	Builder  string // what is wrong with it; "" for nothing
	Ledger   outbox.Ledger
	Changed  bool // the server is not the one the ledger knows
	Schema   int
	Checks   checked
	Checking bool   // no check has been made yet
	CheckAge string `json:"-"`
}

// staleRow is one matter that owes a build.
type staleRow struct {
	Key     rail.Key
	Status  string
	Owed    moment
	Demands int64
	Landed  int64
	Why     string
	Next    string
}

type firmRow struct {
	Firm                    rail.UUID
	Queued, Running, Parked int64
	Oldest                  moment
	Paused                  bool
}

type pauseRow struct {
	Firm   rail.UUID // the nil UUID for all
	By     string
	Reason string
	Since  moment
}

// factsView is how the facts stand, on their way in and on their way out.
type factsView struct {
	Undecided       int64
	OldestUndecided moment
	Publishing      string
	Pending         int64 // where publishing is required
	OldestPending   moment
	Parked          int64
	Relays          []outbox.Relayed
}

func (c *Console) readNow(ctx context.Context, _ url.Values) (any, error) {
	st, err := audit.ReadStatus(ctx, c.opts.DB)
	if err != nil {
		return nil, err
	}
	stale, err := audit.Stale(ctx, c.opts.DB, mostStale)
	if err != nil {
		return nil, err
	}
	x := moments{st.At}
	v := nowView{
		At: x.of(st.At), Owing: st.Jobs.Queued + st.Jobs.Running + st.Jobs.Parked, Oldest: x.maybe(st.OldestOwed), Jobs: st.Jobs,
		Canary: x.maybe(st.CanaryLanded), Ledger: st.Ledger, Changed: st.LedgerChanged, Schema: st.SchemaVersion, Pauses: pauseRows(x, st.Pauses),
	}
	for _, m := range stale {
		v.Stale = append(v.Stale, staleRow{m.Key, m.Status, x.maybe(m.OwedSince), m.DemandsOwed, m.Landed, why(m.JobRow), m.Next})
	}
	v.firms(x, st)
	if st.Builder != nil {
		v.Builder = st.Builder.String()
	}
	v.checked(c.checks.now())
	v.Facts, err = c.readFacts(ctx, x, st)
	return v, err
}

func (c *Console) readFacts(ctx context.Context, x moments, st audit.Status) (f factsView, err error) {
	f = factsView{Undecided: st.Undecided, OldestUndecided: x.maybe(st.OldestUndecided), Publishing: st.Ledger.Publishing, OldestPending: x.maybe(st.OldestPending)}
	if st.Pending != nil {
		f.Pending = *st.Pending
	}
	if f.Parked, err = outbox.CountParked(ctx, c.opts.DB); err != nil {
		return f, err
	}
	f.Relays, err = outbox.Relays(ctx, c.opts.DB)
	return f, err
}

// why is the one reason that stands out for a matter that is not current.
func why(j audit.JobRow) string {
	switch {
	case j.Status == "parked" && j.ParkedBy == "operator":
		return "parked by an operator: " + j.ParkedReason
	case j.Status == "parked":
		return fmt.Sprintf("parked after %s: %s", plural(int64(j.Attempts), "attempt", "attempts"), j.ParkedReason)
	case j.LastError != "" && j.Attempts > 0:
		return fmt.Sprintf("attempt %d is due; the last one said: %s", j.Attempts+1, j.LastError)
	case j.Status == "running" && j.RebuildNeeded:
		return "being built; demand came meanwhile and is not in that build"
	case j.Status == "running":
		return "being built"
	}
	return "demanded, and not built yet"
}

func (v *nowView) firms(x moments, st audit.Status) {
	for _, f := range st.Firms {
		row := firmRow{Firm: f.Firm, Queued: f.Queued, Running: f.Running, Parked: f.Parked, Oldest: x.maybe(f.OldestOwed)}
		for _, p := range st.Pauses {
			row.Paused = row.Paused || p.Firm.IsZero() || p.Firm == f.Firm
		}
		v.Firms = append(v.Firms, row)
	}
}

func (v *nowView) checked(last checked) {
	v.Checks, v.Checking = last, last.At.IsZero()
	v.CheckAge = span(time.Since(last.At))
}

func pauseRows(x moments, pauses []audit.PauseRow) (out []pauseRow) {
	for _, p := range pauses {
		out = append(out, pauseRow{p.Firm, p.PausedBy, p.Reason, x.of(p.PausedAt)})
	}
	return out
}
