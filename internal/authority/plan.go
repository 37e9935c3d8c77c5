package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Move is what a plan is about. Durations of zero take the database's defaults: a
// grace of 100 ms, a deadline of 2 s, a window of 14 days, a budget of 1 s.
type Move struct {
	Change                          rail.UUID
	Scope                           string
	To                              string // the new writer
	Cohort                          string // scopes that cross as one; empty: first
	Grace, Deadline, Window, Budget time.Duration
	// Relations says of each foreign key between guarded tables, by its name in the
	// plan, what holds when it is cut: MoveTogether, Validated or Projection. One that
	// is not named counts as MoveTogether.
	Relations map[string]string
	RollsBack rail.UUID // the advanced change that this one takes back
}

// What may become of a relation whose two ends come to lie with two writers.
const (
	MoveTogether = "must_move_together" // its scopes cannot be parted
	Validated    = "validated"          // looked up at acceptance, the revision that was seen is stored
	Projection   = "projection"         // follows with a lag that is shown
)

// Relation is a foreign key that the scope's matters have with others.
type Relation struct {
	Name  string `json:"name" db:"relation"`
	Ties  int64  `json:"ties" db:"ties"`
	Class string `json:"class" db:"-"`
}

// findings is what a plan stores of what it saw.
type findings struct {
	Relations        []Relation `json:"relations"`
	PredictedPauseMS float64    `json:"predicted_pause_ms"`
	Blocking         []string   `json:"blocking"`
}

// Plan looks at everything that a crossing of the scope needs and stores what it found;
// what cannot cross is refused, with the reason. The reverse path is tried out in a
// fixture, and the pause predicted from what its statements take now. The same id
// again returns the stored plan.
func (c Controller) Plan(ctx context.Context, m Move) (Change, error) {
	if _, err := ChangeOf(ctx, c.DB, m.Change); err == nil {
		return c.plan(ctx, m, findings{})
	} else if !errors.Is(err, ErrUnknown) {
		return Change{}, err
	}
	f, err := FenceOf(ctx, c.DB, m.Scope)
	if err != nil {
		return Change{}, err
	}
	seen, err := c.look(ctx, f, m)
	if err != nil {
		return Change{}, err
	}
	return c.plan(ctx, m, seen)
}

func (c Controller) plan(ctx context.Context, m Move, seen findings) (Change, error) {
	return c.step(ctx, "Plan("+m.Scope+")", `ops.plan_change($1, $2, $3, $4, $5, $6, $7, $8)`,
		m.Change, m.Scope, m.To, m.RollsBack, asText(m.options()), asText(seen), c.Actor.Name, c.Actor.Reason)
}

// options are the part of a plan that may not change under its id.
func (m Move) options() map[string]any {
	o := map[string]any{}
	for name, d := range map[string]time.Duration{"grace_ms": m.Grace, "deadline_ms": m.Deadline, "budget_ms": m.Budget} {
		if d > 0 {
			o[name] = millis(d)
		}
	}
	if m.Window > 0 {
		o["window_s"] = m.Window.Seconds()
	}
	if m.Cohort != "" {
		o["cohort"] = m.Cohort
	}
	return o
}

// look asks first what is missing: the rest reads tables that may not be readable yet.
func (c Controller) look(ctx context.Context, f Fence, m Move) (seen findings, err error) {
	if seen.Blocking, err = c.unready(ctx, f, m); err != nil || len(seen.Blocking) > 0 {
		return seen, err
	}
	if seen.Relations, err = c.relations(ctx, m); err != nil {
		return findings{}, err
	}
	seen.Blocking = cut(seen.Relations)
	predicted, err := c.predict(ctx, f)
	seen.PredictedPauseMS = millis(predicted)
	return seen, err
}

func (c Controller) relations(ctx context.Context, m Move) ([]Relation, error) {
	found, err := list[Relation](ctx, c.DB, "Plan: relations", `SELECT relation, ties FROM ops.relations_cut($1)`, m.Scope)
	for i, r := range found {
		found[i].Class = MoveTogether
		if class, ok := m.Relations[r.Name]; ok {
			if !slices.Contains([]string{MoveTogether, Validated, Projection}, class) {
				return nil, fmt.Errorf("authority.Plan: relation %s is %q: use %s, %s or %s", r.Name, class, MoveTogether, Validated, Projection)
			}
			found[i].Class = class
		}
	}
	return found, err
}

func cut(relations []Relation) []string {
	why := []string{}
	for _, r := range relations {
		if r.Class == MoveTogether && r.Ties > 0 {
			why = append(why, fmt.Sprintf("relation %s ties %d of its matters to other scopes, and must move together", r.Name, r.Ties))
		}
	}
	return why
}

// unready lists what is missing at either writer, for the way back, and for another
// cohort.
func (c Controller) unready(ctx context.Context, f Fence, m Move) ([]string, error) {
	var why []string
	err := c.DB.QueryRow(ctx, `SELECT ops.move_unready($1, $2)`, f.Scope, m.To).Scan(&why)
	if err != nil || !m.RollsBack.IsZero() {
		return why, wrap("Plan: unready", err)
	}
	missing, err := c.widening(ctx, m)
	return append(why, missing...), err
}

const wideningSQL = `
WITH begun AS MATERIALIZED (
  SELECT DISTINCT cohort FROM ops.write_fence_changes WHERE outcome = 'advanced' AND direction = 'forward'
)
SELECT b.cohort, e.event FROM begun b CROSS JOIN LATERAL ops.cohort_events(b.cohort) e
 WHERE NOT e.seen AND NOT EXISTS (SELECT 1 FROM begun x WHERE x.cohort = coalesce(nullif($1, ''), 'first'))
 ORDER BY 1, 2`

// widening lists what earlier cohorts have not been through, where this move begins
// another one and does not go on with one of them.
func (c Controller) widening(ctx context.Context, m Move) ([]string, error) {
	unseen, err := list[struct {
		Cohort string `db:"cohort"`
		Event  string `db:"event"`
	}](ctx, c.DB, "Plan: cohorts", wideningSQL, m.Cohort)
	var missing []string
	for _, u := range unseen {
		missing = append(missing, fmt.Sprintf("cohort %s has not been through: %s", u.Cohort, u.Event))
	}
	return missing, err
}

// Event is a kind of event that a cohort must have been through.
type Event struct {
	Name string `json:"event" db:"event"`
	Seen bool   `json:"seen" db:"seen"`
}

// Cohort tells which kinds of events a cohort has been through since it crossed.
func Cohort(ctx context.Context, db pg.DB, cohort string) ([]Event, error) {
	return list[Event](ctx, db, "Cohort", `SELECT event, seen FROM ops.cohort_events($1)`, cohort)
}

// Exercised notes that a scope was put through an event that leaves no row of its own:
// deletion, restore (a drill of the old side).
func (c Controller) Exercised(ctx context.Context, scope, event string) error {
	_, err := c.DB.Exec(ctx, `SELECT ops.note_evidence($1, 'exercised', NULL, NULL, NULL, $2)`, scope,
		asText(map[string]string{"event": event, "by": c.Actor.Name, "reason": c.Actor.Reason}))
	return wrap("Exercised("+scope+")", err)
}

// predict adds up what the statements inside the pause take now: the final sequence,
// the verification, and a round trip a step.
func (c Controller) predict(ctx context.Context, f Fence) (time.Duration, error) {
	begun := time.Now()
	for range 6 {
		if _, err := c.DB.Exec(ctx, `SELECT 1`); err != nil {
			return 0, wrap("Plan: round trip", err)
		}
	}
	var n int64
	err := c.DB.QueryRow(ctx, `SELECT count(*) FROM ops.verify_scope($1, $2, ops.fence_final_sequence($1, $2)), ops.scope_digest($1)`, f.Scope, f.Writer).Scan(&n)
	return time.Since(begun), wrap("Plan: predict", err)
}
