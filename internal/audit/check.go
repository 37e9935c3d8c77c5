package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

// Finding is what one invariant's query said. Violations counts up to 10,000; a
// query that failed has Err set, and its zero then means nothing.
type Finding struct {
	Invariant  string   `json:"invariant"`
	Violations int64    `json:"violations"`
	Detail     string   `json:"detail"`             // what the property is and, where broken, what to do
	Examples   []string `json:"examples,omitempty"` // up to 5: firm/matter, run or event ids
	Err        string   `json:"error,omitempty"`
}

// Healthy reports whether the query worked and found nothing.
func (f Finding) Healthy() bool { return f.Err == "" && f.Violations == 0 }

// CheckOptions bound a check; the zero value is a complete one with the defaults.
type CheckOptions struct {
	// Window limits the checks that would read whole tables to runs and facts of
	// the last so much time, and leaves out those that cannot be limited
	// (counts_conserved). Zero looks at everything that is kept.
	Window time.Duration
	// Timeout bounds each query; zero means 30 s.
	Timeout time.Duration
	// StuckAfter is how long past its lease a claim counts as stuck; zero means 10 min.
	StuckAfter time.Duration
	// ForgottenAfter is how long past its not_before a job may wait without any
	// claim of its firm; zero means 30 min. Choose more than the longest build.
	ForgottenAfter time.Duration
	// UndecidedAfter is how old a fact may be without a receipt; zero means 5 min.
	UndecidedAfter time.Duration
	// Refusals, when set, is how many tries to change an ended outcome are known
	// already: more of them are violations. Without it they are told, not counted,
	// because the count never goes down.
	Refusals *int64
}

const (
	capped      = 10_000 // violations counted at most
	maxExamples = 5
)

func (o CheckOptions) withDefaults() CheckOptions {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.StuckAfter, 10*time.Minute)
	set(&o.ForgottenAfter, 30*time.Minute)
	set(&o.UndecidedAfter, 5*time.Minute)
	return o
}

// args are what every invariant's SQL may name.
func (o CheckOptions) args() pgx.NamedArgs {
	a := pgx.NamedArgs{
		"stuck": o.StuckAfter, "forgotten": o.ForgottenAfter, "undecided": o.UndecidedAfter,
		"window": nil, "refusals": o.Refusals, "cap": capped, "examples": maxExamples,
	}
	if o.Window > 0 {
		a["window"] = o.Window
	}
	return a
}

// Invariants returns the closed set of names, in the order of Check's findings.
func Invariants() []string {
	names := make([]string, 0, len(invariants()))
	for _, i := range invariants() {
		names = append(names, i.name)
	}
	return names
}

// Check runs every invariant's query, each in a snapshot and under a timeout of
// its own, and returns a finding for each, the healthy ones too. Its error says
// that the context ended or that no query at all could be run; single failures are
// in the findings.
func Check(ctx context.Context, db pg.DB, o CheckOptions) ([]Finding, error) {
	o = o.withDefaults()
	var found []Finding
	var last error
	failed := 0
	for _, i := range invariants() {
		if i.query(o) == "" {
			continue
		}
		f, err := i.check(ctx, db, o)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("audit.Check: %w", ctx.Err())
		}
		if err != nil {
			failed, last = failed+1, err
			f.Err = pg.Text(err, 300)
		}
		found = append(found, f)
	}
	if failed == len(found) {
		return nil, fmt.Errorf("audit.Check: %w", last)
	}
	return found, nil
}

func (i invariant) check(ctx context.Context, db pg.DB, o CheckOptions) (Finding, error) {
	f := Finding{Invariant: i.name, Detail: i.says}
	var note string
	err := snapshot(ctx, db, o.Timeout, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, i.query(o), o.args()).Scan(&f.Violations, &f.Examples, &note)
	})
	if err != nil {
		return Finding{Invariant: i.name, Detail: i.says}, fmt.Errorf("%s: %w", i.name, err)
	}
	if f.Violations > 0 {
		f.Detail += "; " + i.advice
	}
	if note != "" {
		f.Detail += ": " + note
	}
	return f, nil
}

// query wraps the rows that break a property: their number, some ids, and a note.
// It is empty for a property that cannot be asked of a window.
func (i invariant) query(o CheckOptions) string {
	bad := i.recent
	if o.Window <= 0 && i.whole != "" {
		bad = i.whole
	}
	if !strings.HasPrefix(bad, "\nSELECT") {
		return bad // computes its own answer
	}
	return `WITH bad AS (SELECT id, note FROM (` + bad + `) b LIMIT @cap)
SELECT count(*), coalesce((array_agg(id))[1:@examples], '{}'), coalesce(max(note), '') FROM bad`
}
