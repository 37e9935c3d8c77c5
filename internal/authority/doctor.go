package authority

import (
	"context"
	"errors"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Diagnosis is where a scope stands, and the one next step that is safe.
type Diagnosis struct {
	Scope  string   `json:"scope"`
	Fence  *Fence   `json:"fence,omitempty"`
	Change *Change  `json:"change,omitempty"` // the newest that is not over and done with
	Guards []string `json:"guards,omitempty"` // tables whose fence was taken away or switched off
	Next   string   `json:"next"`             // a command, or empty: nothing to do
	Why    string   `json:"why"`
}

// Doctor tells the state of a scope from rows alone, and the one next safe step.
func Doctor(ctx context.Context, db pg.DB, scope string) (Diagnosis, error) {
	d := Diagnosis{Scope: scope}
	f, err := FenceOf(ctx, db, scope)
	if errors.Is(err, ErrUnknown) {
		d.Next, d.Why = "railctl authority configure --writer NAME "+scope, "no fence: the rail writes, and nobody else is known"
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.Fence = &f
	if d.Guards, err = lostGuards(ctx, db); err != nil {
		return d, err
	}
	changes, err := Changes(ctx, db, scope, 1)
	if err != nil {
		return d, err
	}
	if len(d.Guards) > 0 {
		d.Next, d.Why = "railctl authority guard "+d.Guards[0], "the table has lost its fence: anybody may write it"
		return d, nil
	}
	if len(changes) == 0 {
		d.Next, d.Why = "railctl authority plan "+scope, fmt.Sprintf("open under %s; nothing is planned", f.Writer)
		return d, nil
	}
	d.Change = &changes[0]
	d.Next, d.Why = nextOf(f, changes[0])
	return d, nil
}

func lostGuards(ctx context.Context, db pg.DB) ([]string, error) {
	rows, err := list[struct {
		Table string `db:"guarded"`
	}](ctx, db, "Doctor", `
SELECT g.guarded::text AS guarded FROM ops.write_fence_guards g
 WHERE NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = g.guarded AND t.tgname = 'write_fence' AND t.tgenabled = 'A') ORDER BY 1`)
	var names []string
	for _, r := range rows {
		names = append(names, r.Table)
	}
	return names, err
}

// nextOf is the step after each phase.
func nextOf(f Fence, ch Change) (next, why string) {
	id := ch.ID.String()
	if f.State != "open" {
		switch {
		case ch.Direction == "restore":
			return "railctl authority open-restored " + f.Scope, "closed since a restore: open it under an epoch above every one that was handed out"
		case f.Deadline != nil && time.Now().After(*f.Deadline):
			return "railctl authority abort " + id, "its deadline has passed, and no daemon's watchdog has taken it back: is one running?"
		}
		return "railctl authority cross " + id, f.State + ": going on is safe from here, and so is abort; the watchdog takes it back at its deadline"
	}
	switch ch.Phase {
	case "planned":
		return "railctl authority shadow " + id, "planned: the two sides are not compared yet"
	case "shadowed":
		return "railctl authority cross " + id, "compared: it may cross"
	case "advanced":
		if ch.WindowEndsAt != nil && time.Now().After(*ch.WindowEndsAt) {
			return "railctl authority complete " + id, "the window is over"
		}
		return "", fmt.Sprintf("the window is open until %s: wait, or railctl authority rollback %s", ch.WindowEndsAt.UTC().Format(time.RFC3339), id)
	case "completed":
		if ch.Direction == "forward" {
			return "railctl authority retire " + id, "no way back is open: the old writer is needed for nothing here"
		}
	case "retired":
		return "railctl authority retire-writer " + ch.From, "once every scope is retired"
	}
	return "railctl authority plan " + f.Scope, fmt.Sprintf("open under %s; the last change is %s", f.Writer, ch.Phase)
}

// BlockerSum is one that was in the way, over all closings.
type BlockerSum struct {
	Kind     string `json:"kind" db:"kind"`
	Who      string `json:"who" db:"who"`
	Closings int64  `json:"closings" db:"closings"`
	Aborted  int64  `json:"aborted" db:"aborted"` // of these, how many were given up
}

// Blockers sums who was in the way of closings, the worst first.
func Blockers(ctx context.Context, db pg.DB) ([]BlockerSum, error) {
	return list[BlockerSum](ctx, db, "Blockers", `
SELECT b->>'kind' AS kind, coalesce(b->>'gid', nullif(b->>'application', ''), b->>'role', b->>'kind') AS who,
       count(DISTINCT c.change_id) AS closings, count(DISTINCT c.change_id) FILTER (WHERE c.outcome = 'aborted') AS aborted
  FROM ops.write_fence_changes c CROSS JOIN LATERAL jsonb_array_elements(c.blockers) AS b
 GROUP BY 1, 2 ORDER BY 4 DESC, 3 DESC, 1, 2`)
}

// Condition is one of the five that a way back needs.
type Condition struct {
	Name   string `json:"name" db:"name"`
	Met    bool   `json:"met" db:"met"`
	Detail string `json:"detail" db:"detail"`
}

// ErrNotOffered means that a condition of the way back is not met.
var ErrNotOffered = errors.New("a condition of the way back is not met")

// What a way back tolerates.
const (
	mostExportLag = time.Minute
	newestDrill   = 90 * 24 * time.Hour
)

// Conditions tells whether a change that has advanced may be rolled back.
func Conditions(ctx context.Context, db pg.DB, change rail.UUID) ([]Condition, error) {
	return list[Condition](ctx, db, "Conditions", `SELECT name, met, detail FROM ops.rollback_conditions($1, $2, $3)`, change, mostExportLag, newestDrill)
}

// Rollback plans the way back of a change, under m.Change, where its five conditions
// are met; ErrNotOffered, with all of them, where one is not. From there it goes on like
// any change, with the same evidence.
func (c Controller) Rollback(ctx context.Context, of rail.UUID, m Move) (Change, []Condition, error) {
	ch, err := ChangeOf(ctx, c.DB, of)
	if err != nil {
		return Change{}, nil, err
	}
	m.Scope, m.To, m.Cohort, m.RollsBack = ch.Scope, ch.From, ch.Cohort, of
	if _, err := ChangeOf(ctx, c.DB, m.Change); err == nil { // planned before
		back, err := c.Plan(ctx, m)
		return back, nil, err
	}
	conditions, err := Conditions(ctx, c.DB, of)
	if err != nil {
		return Change{}, nil, err
	}
	for _, condition := range conditions {
		if !condition.Met {
			return Change{}, conditions, fmt.Errorf("authority.Rollback(%s): %s: %w: %s", of, condition.Name, ErrNotOffered, condition.Detail)
		}
	}
	back, err := c.Plan(ctx, m)
	return back, conditions, err
}
