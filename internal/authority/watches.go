package authority

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"briefrail/internal/pg"
)

// Limits are what each watch may show in one span before widening stops. A figure that
// has a baseline may also not be more than Rise times that of the span before.
type Limits struct {
	Span                  time.Duration
	StaleEpochRefusals    float64
	LateFacts             float64
	RevisionConflicts     float64
	Rise                  float64
	ProjectionLag         time.Duration
	UnexplainedDifference float64
}

// DefaultLimits are for a cohort of a few buckets in a quarter of an hour.
func DefaultLimits() Limits {
	return Limits{
		Span: 15 * time.Minute, StaleEpochRefusals: 100, LateFacts: 0, RevisionConflicts: 50, Rise: 3,
		ProjectionLag: time.Minute, UnexplainedDifference: 0,
	}
}

// Reading is one watch of one scope.
type Reading struct {
	Scope    string   `json:"scope" db:"scope"`
	Watch    string   `json:"watch" db:"watch"`
	Value    float64  `json:"value" db:"value"`
	Baseline *float64 `json:"baseline,omitempty" db:"baseline"`
}

// Readings reads every watch that shows anything.
func Readings(ctx context.Context, db pg.DB, span time.Duration) ([]Reading, error) {
	return list[Reading](ctx, db, "Readings", `SELECT scope, watch, value, baseline FROM ops.fence_watches($1) ORDER BY scope, watch`, span)
}

// exceeds tells whether a reading stops widening. It never takes anything back.
func (l Limits) exceeds(r Reading) bool {
	most := map[string]float64{
		"intents_without_result": 0, "stale_epoch_refusals": l.StaleEpochRefusals, "late_facts": l.LateFacts, "retired_paths": 0,
		"revision_conflicts": l.RevisionConflicts, "projection_lag_seconds": l.ProjectionLag.Seconds(), "unexplained_differences": l.UnexplainedDifference,
	}[r.Watch]
	if r.Baseline != nil && *r.Baseline >= 10 && r.Value > l.Rise**r.Baseline {
		return true
	}
	return r.Value > most
}

// WatchAll raises a hold for every reading beyond its limit, and returns these.
func WatchAll(ctx context.Context, db pg.DB, l Limits, log *slog.Logger) (over []Reading, err error) {
	readings, err := Readings(ctx, db, l.Span)
	if err != nil {
		return nil, err
	}
	over = slices.DeleteFunc(readings, func(r Reading) bool { return !l.exceeds(r) })
	if len(over) == 0 {
		return nil, nil
	}
	if _, err := db.Exec(ctx, `SELECT ops.raise_hold(r->>'scope', r->>'watch', r) FROM jsonb_array_elements($1) AS r`, asText(over)); err != nil {
		return nil, wrap("WatchAll", err)
	}
	for _, r := range over {
		log.WarnContext(ctx, "widening is held", slog.String("scope", r.Scope), slog.String("watch", r.Watch), slog.Float64("value", r.Value))
	}
	return over, nil
}
