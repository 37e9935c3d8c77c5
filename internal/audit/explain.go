package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Kind says what an Entry of a timeline is.
type Kind string

// The kinds of entries. Entries of one instant are told in this order.
const (
	KindFact      Kind = "fact"
	KindReceipt   Kind = "receipt"
	KindAct       Kind = "act" // an operator's, from the audit log
	KindPause     Kind = "pause"
	KindClaim     Kind = "claim"
	KindFrame     Kind = "frame"
	KindEnd       Kind = "end" // of a run
	KindLateWrite Kind = "late_write"
)

func (k Kind) rank() int {
	order := []Kind{KindFact, KindReceipt, KindAct, KindPause, KindClaim, KindFrame, KindEnd, KindLateWrite}
	return slices.Index(order, k)
}

// Entry is one thing that happened, as a row tells it.
type Entry struct {
	At         time.Time `json:"at"`
	Kind       Kind      `json:"kind"`
	Text       string    `json:"text"`
	Event      rail.UUID `json:"event_id,omitzero"`
	Run        rail.UUID `json:"run_id,omitzero"`
	Generation int64     `json:"generation,omitempty"`
	Outcome    string    `json:"outcome,omitempty"` // of an end: the run row's word; of a receipt: the verdict
	Actor      string    `json:"actor,omitempty"`
}

// Explanation is why a matter's Brief is as it is, from rows alone.
type Explanation struct {
	Key       rail.Key   `json:"matter"`
	At        time.Time  `json:"at"`                // the database's clock
	Job       *JobRow    `json:"job,omitempty"`     // nil where nothing was ever demanded, or it was purged
	Current   *FrameRow  `json:"current,omitempty"` // the frame that readers get
	Pauses    []PauseRow `json:"pauses,omitempty"`  // that hold this matter now
	Undecided int64      `json:"undecided_facts"`   // of this matter
	// Builder is set where the matter is queued and claims are handed back because
	// of the builder.
	Builder   *BuilderTrouble `json:"builder_at_fault,omitempty"`
	Timeline  []Entry         `json:"timeline"`  // oldest first
	Truncated bool            `json:"truncated"` // older entries were left out
	Now       []string        `json:"now"`       // why it is as it is
	Next      string          `json:"next"`      // what happens next, and when
}

const (
	matterPausesSQL    = pauseSQL + ` WHERE firm_id IS NULL OR firm_id = $1 ORDER BY paused_at`
	matterUndecidedSQL = `
SELECT count(*) FROM ops.outbox_undecided u JOIN ops.domain_event_outbox o ON o.event_id = u.event_id
 WHERE o.firm_id = $1 AND o.matter_id = $2`
	aheadSQL = `
SELECT count(*) FROM ops.matter_frame_jobs
 WHERE run_status = 'queued' AND firm_id = $1 AND not_before <= clock_timestamp()
   AND (priority, queued_at) < ($2, $3::timestamptz)`
)

// Explain tells the story of one matter: at most limit entries (0 for 50), the
// latest. It is no error when the ledger knows nothing of the matter: the answer
// then says so.
func Explain(ctx context.Context, db pg.DB, k rail.Key, limit int) (Explanation, error) {
	e := Explanation{Key: k}
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) error {
		if err := e.present(ctx, tx); err != nil {
			return err
		}
		if err := e.timeline(ctx, tx, orDefault(limit)); err != nil {
			return err
		}
		return e.conclude(ctx, tx)
	})
	if err != nil {
		return Explanation{}, fmt.Errorf("audit.Explain(%s): %w", k, err)
	}
	return e, nil
}

// present reads how the matter stands.
func (e *Explanation) present(ctx context.Context, tx pgx.Tx) error {
	k := e.Key
	j, err := ReadJob(ctx, tx, k)
	switch {
	case err == nil:
		e.Job = &j
	case !errors.Is(err, ErrNotFound):
		return err
	}
	if e.Pauses, err = list[PauseRow](ctx, tx, matterPausesSQL, k.Firm); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, matterUndecidedSQL, k.Firm, k.Matter).Scan(&e.Undecided); err != nil {
		return err
	}
	return tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&e.At)
}

// timeline reads what happened. Each source gives its newest, so that the newest
// of all are among them.
func (e *Explanation) timeline(ctx context.Context, tx pgx.Tx, limit int) error {
	for _, source := range []func(context.Context, pgx.Tx, int) error{e.facts, e.runs, e.frames, e.acts} {
		if err := source(ctx, tx, limit+1); err != nil {
			return err
		}
	}
	for _, p := range e.Pauses {
		e.add(Entry{At: p.PausedAt, Kind: KindPause, Actor: p.PausedBy, Text: pauseText(p)})
	}
	slices.SortStableFunc(e.Timeline, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind.rank(), b.Kind.rank()))
	})
	if n := len(e.Timeline); n > limit {
		e.Timeline, e.Truncated = e.Timeline[n-limit:], true
	}
	return nil
}

func (e *Explanation) add(n Entry) { e.Timeline = append(e.Timeline, n) }

func (e *Explanation) facts(ctx context.Context, tx pgx.Tx, limit int) error {
	facts, err := list[FactRow](ctx, tx, factSQL+` WHERE o.firm_id = $1 AND o.matter_id = $2 ORDER BY o.seq DESC LIMIT $3`,
		e.Key.Firm, e.Key.Matter, limit)
	for _, f := range facts {
		e.Timeline = append(e.Timeline, f.entries()...)
	}
	return err
}

func (e *Explanation) runs(ctx context.Context, tx pgx.Tx, limit int) error {
	runs, err := list[RunRow](ctx, tx, runSQL+` WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT $3`,
		e.Key.Firm, e.Key.Matter, limit)
	for _, r := range runs {
		e.Timeline = append(e.Timeline, r.entries()...)
	}
	return err
}

func (e *Explanation) frames(ctx context.Context, tx pgx.Tx, limit int) error {
	frames, err := list[FrameRow](ctx, tx, frameSQL+` WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT $3`,
		e.Key.Firm, e.Key.Matter, limit)
	for i, f := range frames {
		if e.Job != nil && f.Generation == e.Job.Landed {
			e.Current = &frames[i]
		}
		e.add(Entry{At: f.BuiltAt, Kind: KindFrame, Run: f.RunID, Generation: f.Generation, Text: f.text()})
	}
	return err
}

func (e *Explanation) acts(ctx context.Context, tx pgx.Tx, limit int) error {
	rows, err := list[AuditRow](ctx, tx, auditSQL+` WHERE target IN ($1, $2, 'all', 'ledger') ORDER BY id DESC LIMIT $3`,
		e.Key.String(), e.Key.Firm.String(), limit)
	for _, a := range rows {
		if !e.concerns(a) {
			continue
		}
		e.add(Entry{At: a.At, Kind: KindAct, Actor: a.Actor, Text: fmt.Sprintf("%s of %s by %s: %s", a.Action, a.Target, a.Actor, a.Reason)})
	}
	return err
}

// concerns leaves out a pause that is told from its own row already.
func (e *Explanation) concerns(a AuditRow) bool {
	return a.Action != "dispatch.pause" || !slices.ContainsFunc(e.Pauses, func(p PauseRow) bool {
		return scopeOf(p) == a.Target && a.At.Sub(p.PausedAt).Abs() < time.Second
	})
}
