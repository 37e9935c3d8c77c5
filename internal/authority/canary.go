package authority

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg"
)

// The kinds of ways by which a writer wrote once.
const (
	PathRole   = "role"   // a role of the database: it holds no right to write
	PathRoute  = "route"  // an address: it answers that it is gone, or nothing
	PathScript = "script" // what somebody ran by hand
	PathJob    = "job"    // what ran on a schedule
)

// Path is one such way, and what became of the last try.
type Path struct {
	Writer  string     `json:"writer" db:"writer"`
	Kind    string     `json:"kind" db:"kind"`
	Path    string     `json:"path" db:"path"`
	TriedAt *time.Time `json:"tried_at,omitempty" db:"tried_at"`
	Refused *bool      `json:"refused,omitempty" db:"refused"`
	Answer  *string    `json:"answer,omitempty" db:"answer"`
}

// Paths lists every known way of every writer.
func Paths(ctx context.Context, db pg.DB) ([]Path, error) {
	return list[Path](ctx, db, "Paths", `SELECT writer, kind, path, tried_at, refused, answer FROM ops.writer_paths ORDER BY writer, kind, path`)
}

// WatchPath has a way of a writer tried from its retirement on.
func (c Controller) WatchPath(ctx context.Context, p Path) error {
	_, err := c.DB.Exec(ctx, `SELECT ops.watch_path($1, $2, $3)`, p.Writer, p.Kind, p.Path)
	return wrap("WatchPath("+p.Path+")", err)
}

// Try tries to write by a way; refused says that it could not, answer in a few words
// what was said, without content. An error means that nothing is known.
type Try func(ctx context.Context, p Path) (refused bool, answer string, err error)

// Canary tries the ways of retired writers on a schedule. Each must be refused: one that
// is not raises a hold, and breaks the invariant retired_paths, which pages. Roles and
// routes it tries by itself; scripts and jobs need a Try, as what the database names is
// never run.
type Canary struct {
	DB    pg.DB
	Every time.Duration
	Tries map[string]Try // by kind; may be nil
	Log   *slog.Logger
	Open  prometheus.Gauge // how many ways the last turn found open; may be nil
}

// NewOpenPaths registers the gauge of a Canary.
func NewOpenPaths(reg prometheus.Registerer) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rail_retired_paths_open", Help: "Ways by which a retired writer could still write when they were last tried.",
	})
	reg.MustRegister(g)
	return g
}

// Run tries at once and then every turn, until ctx ends; it returns ctx's error.
func (c Canary) Run(ctx context.Context) error {
	return turns(ctx, func() time.Duration {
		if _, err := c.Turn(ctx); err != nil && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "retired paths not tried", slog.String("err", pg.Text(err, 300)))
		}
		return c.Every
	})
}

const retiredPathsSQL = `
SELECT p.writer, p.kind, p.path, p.tried_at, p.refused, p.answer FROM ops.writer_paths p JOIN ops.writers w ON w.name = p.writer
 WHERE w.status = 'retired'
UNION
SELECT w.name, 'role', r.name, NULL, NULL, NULL FROM ops.writers w CROSS JOIN LATERAL unnest(w.database_roles || w.importer_role) AS r (name)
 WHERE w.status = 'retired' AND r.name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ops.writer_paths p WHERE p.writer = w.name AND p.kind = 'role' AND p.path = r.name)
 ORDER BY 1, 2, 3`

// Turn tries every way of every retired writer once, and returns those that are open.
func (c Canary) Turn(ctx context.Context) (open []Path, err error) {
	paths, err := list[Path](ctx, c.DB, "Canary", retiredPathsSQL)
	if err != nil {
		return nil, err
	}
	var failed error // one that cannot be tried keeps no other from it
	for _, p := range paths {
		refused, answer, err := c.try(ctx, p)
		if err == nil {
			err = c.note(ctx, p, refused, answer)
		}
		failed = errors.Join(failed, wrap("Canary("+p.Path+")", err))
		if err == nil && !refused {
			open = append(open, p)
		}
	}
	if c.Open != nil && (failed == nil || len(open) > 0) { // of what could not be tried nothing new is known
		c.Open.Set(float64(len(open)))
	}
	return open, failed
}

func (c Canary) try(ctx context.Context, p Path) (refused bool, answer string, err error) {
	if try := c.Tries[p.Kind]; try != nil {
		return try(ctx, p)
	}
	switch p.Kind {
	case PathRole:
		return c.tryRole(ctx, p)
	case PathRoute:
		return tryRoute(ctx, p)
	}
	return true, "", fmt.Errorf("nothing here can try a %s", p.Kind)
}

func (c Canary) tryRole(ctx context.Context, p Path) (bool, string, error) {
	rights, err := Rights(ctx, c.DB, p.Writer)
	for _, r := range rights {
		if r.Role == p.Path {
			return false, r.What + ": " + r.Rights, err
		}
	}
	return true, "no right is left", err
}

// routeLimit is how long an address may take to answer a try.
const routeLimit = 10 * time.Second

// tryRoute posts nothing to an address: 4xx is a refusal, and so is that nobody is
// there any more. Of somebody who takes the call and says nothing, nothing is known.
func tryRoute(ctx context.Context, p Path) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Path, http.NoBody)
	if err != nil {
		return false, "", fmt.Errorf("route %q: %w", p.Path, err)
	}
	req.Header.Set("User-Agent", "briefrail-retired-paths")
	res, err := http.DefaultTransport.RoundTrip(req)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return true, "nobody is there", nil
	}
	if err != nil {
		return false, "", err
	}
	_ = res.Body.Close()
	return res.StatusCode >= 400 && res.StatusCode < 500, res.Status, nil
}

// note keeps the verdict; a way that is open stops widening and is said aloud.
func (c Canary) note(ctx context.Context, p Path, refused bool, answer string) error {
	if _, err := c.DB.Exec(ctx, `SELECT ops.watch_path($1, $2, $3), ops.note_path($1, $2, $3, $4, $5)`, p.Writer, p.Kind, p.Path, refused, answer); err != nil {
		return err
	}
	if refused {
		return nil
	}
	c.Log.ErrorContext(ctx, "a retired writer can still write", slog.String("writer", p.Writer), slog.String("kind", p.Kind), slog.String("path", p.Path))
	details := asText(map[string]string{"kind": p.Kind, "path": p.Path, "answer": answer})
	_, err := c.DB.Exec(ctx, `SELECT ops.note_evidence('system', 'retired_path', $1, NULL, NULL, $2::jsonb), ops.raise_hold(NULL, 'retired_paths', $2::jsonb)`, p.Writer, details)
	return err
}
