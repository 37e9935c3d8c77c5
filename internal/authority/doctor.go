package authority

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	Holds  []Hold   `json:"holds,omitempty"`  // what stops the scope from moving on
	// Bounds are the settings that roles of the writers concerned lack, as statements: who
	// may stay in a transaction for ever holds closings up.
	Bounds []string `json:"bounds,omitempty"`
	Next   string   `json:"next"` // a command, or empty: nothing to do
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
	if err := d.look(ctx, db); err != nil {
		return d, err
	}
	switch {
	case len(d.Guards) > 0:
		d.Next, d.Why = "railctl authority guard "+d.Guards[0], "the table has lost its fence: anybody may write it"
	case d.Change == nil:
		d.Next, d.Why = "railctl authority plan "+scope, fmt.Sprintf("open under %s; nothing is planned", f.Writer)
	default:
		d.Next, d.Why = nextOf(f, *d.Change)
	}
	if len(d.Holds) > 0 && d.widens() {
		d.Why = "a hold stops widening until a person has understood it; " + d.Why + ", then: " + d.Next
		d.Next = fmt.Sprintf("railctl authority release %d --class CLASS", d.Holds[0].ID)
	}
	return d, nil
}

// look reads all that the next step depends on.
func (d *Diagnosis) look(ctx context.Context, db pg.DB) (err error) {
	if d.Guards, err = lostGuards(ctx, db); err != nil {
		return err
	}
	holds, err := Holds(ctx, db, false)
	for _, h := range holds {
		if h.Scope == d.Scope || (h.Scope == "" && !strings.HasPrefix(d.Scope, "fixture/")) {
			d.Holds = append(d.Holds, h)
		}
	}
	if err != nil {
		return err
	}
	changes, err := Changes(ctx, db, d.Scope, 1)
	if err != nil {
		return err
	}
	concerned := []string{d.Fence.Writer}
	if len(changes) > 0 {
		d.Change = &changes[0]
		concerned = append(concerned, d.Change.From, d.Change.To)
	}
	d.Bounds, err = unbounded(ctx, db, concerned)
	return err
}

// widens reports whether the next step would be a plan, or close what is to move on:
// going back is never held.
func (d *Diagnosis) widens() bool {
	switch ch := d.Change; {
	case d.Fence.State != "open" || len(d.Guards) > 0:
		return false
	case ch == nil || ch.Phase == "aborted":
		return true
	case ch.Direction == "forward":
		return ch.Phase == "shadowed"
	default:
		return ch.Outcome != ""
	}
}

// unbounded lists what the roles of external writers lack. A setting for the role, for
// everybody or for the database is one; the rail's own roles have theirs from roles.sql.
func unbounded(ctx context.Context, db pg.DB, writers []string) ([]string, error) {
	rows, err := list[struct {
		Statement string `db:"statement"`
	}](ctx, db, "Doctor: timeouts", `
SELECT DISTINCT format('ALTER ROLE %I SET %s = %L', r.rolname, s.name, s.value) AS statement
  FROM ops.writers w CROSS JOIN LATERAL unnest(w.database_roles || w.importer_role) AS n (name) JOIN pg_roles r ON r.rolname = n.name
 CROSS JOIN (VALUES ('statement_timeout', '30s'), ('idle_in_transaction_session_timeout', '10s')) AS s (name, value)
 WHERE w.kind = 'external' AND w.status = 'active' AND w.name = ANY ($1)
   AND coalesce((SELECT split_part(c.entry, '=', 2) FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) AS c (entry)
                  WHERE d.setrole IN (r.oid, 0) AND d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                    AND starts_with(c.entry, s.name || '=')
                  ORDER BY d.setrole <> 0 DESC, d.setdatabase <> 0 DESC LIMIT 1), '0') ~ '^0+[a-z]*$'
 ORDER BY 1`, writers)
	var statements []string
	for _, r := range rows {
		statements = append(statements, r.Statement)
	}
	return statements, err
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
