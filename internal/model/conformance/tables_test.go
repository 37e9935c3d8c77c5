package conformance_test

import (
	"context"
	"fmt"

	"briefrail/internal/model/specs"
	"briefrail/internal/rail"
)

// tables is what the database says of one matter.
type tables struct {
	Status                     string // "none" where there is no row
	Requested, Claimed, Landed int64
	Flag, Expired              bool
	Run                        rail.UUID // who holds the claim
	Attempts                   int64
	Owed                       int64
	Image                      string // the whole row as JSON

	Runs           []rail.UUID // by generation
	Generations    []int64     // of Runs
	Outcomes       []string    // of Runs, with the mark of a late write
	Frames         []int64     // generations
	FrameRuns      []rail.UUID // of Frames
	Told, Warnings int64       // facts: brief.landed, brief.parked
}

const tablesSQL = `
SELECT coalesce(j.run_status, 'none'), coalesce(j.requested_generation, 0), coalesce(j.claimed_generation, 0), coalesce(j.landed_generation, 0),
       coalesce(j.rebuild_needed, false), coalesce(j.lease_expires_at <= clock_timestamp(), false), j.run_id,
       coalesce(j.attempts, 0), coalesce(j.demands_owed, 0), coalesce(to_jsonb(j)::text, ''),
       r.runs, r.generations, r.outcomes, f.generations, f.runs, o.landed, o.parked
  FROM (VALUES ($1::uuid, $2::uuid)) k (firm_id, matter_id)
  LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = k.firm_id AND j.matter_id = k.matter_id
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(run_id ORDER BY generation), '{}') AS runs, coalesce(array_agg(generation ORDER BY generation), '{}') AS generations,
              coalesce(array_agg(outcome || CASE WHEN late_write_at IS NULL THEN '' ELSE ', late' END ORDER BY generation), '{}') AS outcomes
         FROM ops.matter_frame_runs WHERE firm_id = k.firm_id AND matter_id = k.matter_id) r
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(generation ORDER BY generation), '{}') AS generations, coalesce(array_agg(run_id ORDER BY generation), '{}') AS runs
         FROM ops.matter_frames WHERE firm_id = k.firm_id AND matter_id = k.matter_id) f
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE event_name = 'brief.landed') AS landed, count(*) FILTER (WHERE event_name = 'brief.parked') AS parked
         FROM ops.domain_event_outbox WHERE firm_id = k.firm_id AND matter_id = k.matter_id) o`

// read reads the tables by a session that no fault touches.
func (m *matter) read(ctx context.Context) (t tables, err error) {
	err = m.db.work.Conn.QueryRow(ctx, tablesSQL, m.key.Firm, m.key.Matter).Scan(&t.Status, &t.Requested, &t.Claimed, &t.Landed,
		&t.Flag, &t.Expired, &t.Run, &t.Attempts, &t.Owed, &t.Image, &t.Runs, &t.Generations, &t.Outcomes, &t.Frames, &t.FrameRuns, &t.Told, &t.Warnings)
	if err != nil {
		return t, fmt.Errorf("read the tables: %w", err)
	}
	return t, nil
}

// outcome is what became of a run; empty where it has no row.
func (t *tables) outcome(run rail.UUID) string {
	for i, r := range t.Runs {
		if r == run {
			return t.Outcomes[i]
		}
	}
	return ""
}

// state maps the tables, and what only processes know, to a state of the model. What
// has no meaning outside the model (the budgets, the notes Extra, Tries and Met) is like's.
func (m *matter) state(like specs.LedgerState) (specs.LedgerState, error) {
	t := &m.now
	row, err := m.row()
	s := specs.LedgerState{
		Row: row, Asked: m.asked, Covered: m.asked - uint8(t.Owed), Wrong: m.wrong,
		Extra: like.Extra, Tries: like.Tries, Met: like.Met, Faults: like.Faults, Demands: like.Demands,
	}
	for i, w := range m.workers {
		if w.pc() != specs.WorkerIdle {
			s.Workers[i] = specs.LedgerWorker{PC: w.pc(), Run: runRow(t.outcome(w.claim.Token.Run)), Gen: uint8(w.claim.Token.Generation), Seen: w.seen}
		}
	}
	for _, generation := range t.Frames {
		s.Frames |= 1 << generation
	}
	return s, err
}

// row maps the job's row.
func (m *matter) row() (specs.Row, error) {
	t := &m.now
	row := specs.Row{
		Requested: uint16(t.Requested), Claimed: uint16(t.Claimed), Landed: uint16(t.Landed),
		Owed: uint16(t.Owed), Attempts: uint16(t.Attempts), Flag: t.Flag, Expired: t.Expired,
	}
	for s := specs.StatusNone; s <= specs.StatusParked; s++ {
		if s.String() == t.Status {
			row.Status = s
		}
	}
	if t.Run.IsZero() {
		return row, nil
	}
	for i, run := range t.Runs { // each claim has its run, so the one before has it too
		if run != t.Run {
			row.Prev = max(row.Prev, uint16(t.Generations[i]))
		}
	}
	for i, w := range m.workers {
		if w.pc() != specs.WorkerIdle && w.claim.Token.Run == t.Run {
			row.Holder = specs.HolderOf(i)
			return row, nil
		}
	}
	if m.dead[t.Run] {
		row.Holder = specs.Dead
		return row, nil
	}
	return row, fmt.Errorf("run %s holds the claim, and no worker has it", t.Run)
}

// runRow maps a run's outcome as its worker sees it.
func runRow(outcome string) specs.RunRow {
	switch outcome {
	case "":
		return specs.RunGone
	case "running":
		return specs.RunOpen
	case "landed":
		return specs.RunLanded
	default:
		return specs.RunLost
	}
}

// watch notes what has gone wrong between two looks at the tables, when worker acted
// (nil: nobody in particular).
func (m *matter) watch(before, now *tables, acted *worker) {
	seen, newest := map[int64]bool{}, int64(0)
	for _, g := range before.Frames {
		seen[g], newest = true, max(newest, g)
	}
	for i, g := range now.Frames {
		if i > 0 && now.Frames[i-1] == g {
			m.wrong |= specs.WrongTwice
		}
		if seen[g] {
			continue
		}
		if g < newest {
			m.wrong |= specs.WrongBack
		}
		if before.Status != "running" || now.FrameRuns[i] != before.Run {
			m.wrong |= specs.WrongStale
		}
	}
	if now.Landed < before.Landed {
		m.wrong |= specs.WrongBack
	}
	if now.Landed != before.Landed && (acted == nil || acted.claim.Token.Run != before.Run) {
		m.wrong |= specs.WrongUsurped
	}
	if now.Claimed > before.Claimed && before.Owed == 0 {
		m.wrong |= specs.WrongNeedless
	}
}
