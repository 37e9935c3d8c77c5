package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Want is demand for one matter.
type Want struct {
	Key      rail.Key
	Count    int // facts that ask for it, at least 1
	Priority rail.Priority
	Quiet    time.Duration // settle time; interactive demand skips it
}

// Demanded tells what the ledger made of a Want.
type Demanded struct {
	Key       rail.Key
	Requested int64  // the generation that the demand is part of
	Status    string // run_status after the demand
}

// ops.demand is the whole transition, one upsert in key order.
const demandSQL = `
SELECT firm_id, matter_id, requested_generation, run_status
  FROM ops.demand(@firms, @matters, @counts, @priorities, @quiets, @max_wait)`

// Demand records wants in one statement and returns one Demanded per distinct
// key. It never fails because of the row's state: demand on a running job is a
// flag, on a parked one at least a number. maxWait bounds how far settling may
// push a row back from the moment it was queued.
func Demand(ctx context.Context, db pg.DB, wants []Want, maxWait time.Duration) ([]Demanded, error) {
	wants = merge(wants)
	if len(wants) == 0 {
		return nil, nil
	}
	rows, err := db.Query(ctx, demandSQL, demandArgs(wants, maxWait))
	if err != nil {
		return nil, fmt.Errorf("jobs.Demand(%d matters): %w", len(wants), err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d Demanded, err error) {
		err = r.Scan(&d.Key.Firm, &d.Key.Matter, &d.Requested, &d.Status)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("jobs.Demand(%d matters): %w", len(wants), err)
	}
	return out, nil
}

// merge sums the wants of one matter, so that a hot matter costs one bump a batch:
// the most urgent priority and the shortest quiet win.
func merge(wants []Want) []Want {
	sorted := slices.Clone(wants)
	slices.SortFunc(sorted, func(a, b Want) int { return a.Key.Compare(b.Key) })
	out := sorted[:0]
	for _, w := range sorted {
		if n := len(out); n > 0 && out[n-1].Key == w.Key {
			out[n-1].Count += w.Count
			out[n-1].Priority = min(out[n-1].Priority, w.Priority)
			out[n-1].Quiet = min(out[n-1].Quiet, w.Quiet)
			continue
		}
		out = append(out, w)
	}
	return out
}

func demandArgs(wants []Want, maxWait time.Duration) pgx.NamedArgs {
	var (
		firms, matters = make([]rail.UUID, len(wants)), make([]rail.UUID, len(wants))
		counts         = make([]int32, len(wants))
		priorities     = make([]int16, len(wants))
		quiets         = make([]time.Duration, len(wants))
	)
	for i, w := range wants {
		firms[i], matters[i] = w.Key.Firm, w.Key.Matter
		counts[i], priorities[i], quiets[i] = int32(w.Count), int16(w.Priority), w.Quiet
	}
	return pgx.NamedArgs{
		"firms": firms, "matters": matters, "counts": counts, "priorities": priorities,
		"quiets": quiets, "max_wait": maxWait,
	}
}
