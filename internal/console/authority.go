package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// furtherPlaces are the pages about the write fence. They only show: authority is moved
// by verbs of railctl, and each page says which one is the next safe step.
func (c *Console) furtherPlaces() map[string]place {
	return map[string]place{
		"authority": {"Authority", nil, c.readAuthority},
		"scope":     {"Scope", []string{"of"}, c.readScope},
		"change":    {"Change", []string{"of"}, c.readChange},
	}
}

// noChange is errGone about a change.
type noChange struct{ error }

// Is tells that there is no such thing.
func (noChange) Is(target error) bool { return target == errGone }

const (
	mostChanges = 20
	// soughtChanges is in how many changes the newest of each scope is sought; one
	// that is not among them is asked for by itself.
	soughtChanges = 256
)

// authorityView is who writes what.
type authorityView struct {
	At       moment     `json:"-"`
	Fences   []fenceRow // in the order of their scopes
	Buckets  []fenceRow // all 64, for the drawing
	Shares   []share    // of the buckets, by writer
	Rails    int        // buckets that the rail writes
	Closed   int        // scopes that are being closed
	Guards   []string   // tables that have lost their fence
	Holds    []holdRow  // in force
	Writers  []authority.Writer
	Changes  []changeRow
	Blockers []authority.BlockerSum
}

// share is how many buckets a writer has.
type share struct {
	Writer string
	N      int
}

// fenceRow is who writes one scope.
type fenceRow struct {
	Scope, Label string
	Writer, Kind string // kind: rail, external
	Epoch        int64
	State        string // open, closing, sealed; "" where there is no fence
	Since        moment
	Deadline     moment // of a closing
	Change       rail.UUID
	Phase        string // of that change
	Window       moment // its end, while a way back is open
	Holds        int    // in force, of this scope or of every one
}

// Look is how the bucket is drawn.
func (f fenceRow) Look() string {
	if f.State == "closing" || f.State == "sealed" {
		return "closed"
	}
	return f.Kind
}

type holdRow struct {
	ID      int64
	Scope   string // "" for every scope
	Watch   string
	Details string
	Raised  moment
}

// changeRow is one change in a list.
type changeRow struct {
	ID               rail.UUID
	Scope, Direction string
	From, To         string
	Phase            string
	Pause            string
	Planned          moment
	Window           moment
}

// nextStep is the one step that is safe next, as railctl takes it.
type nextStep struct{ Command, Why string }

// snapshot answers several questions as of one instant of the ledger.
func (c *Console) snapshot(ctx context.Context, read func(pgx.Tx, moments) error) error {
	return pgx.BeginTxFunc(ctx, c.opts.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return err
		}
		return read(tx, moments{now})
	})
}

func (c *Console) readAuthority(ctx context.Context, _ url.Values) (v any, err error) {
	err = c.snapshot(ctx, func(tx pgx.Tx, x moments) error {
		v, err = newAuthorityView(ctx, tx, x)
		return err
	})
	return v, err
}

func newAuthorityView(ctx context.Context, db pg.DB, x moments) (v authorityView, err error) {
	v.At = x.of(x.now)
	fences, err := authority.Fences(ctx, db)
	if err != nil {
		return v, err
	}
	if v.Writers, err = authority.Writers(ctx, db); err != nil {
		return v, err
	}
	changes, err := authority.Changes(ctx, db, "", soughtChanges)
	if err != nil {
		return v, err
	}
	v.Changes = changeRows(x, changes[:min(len(changes), mostChanges)])
	if v.Holds, err = readHolds(ctx, db, x); err != nil {
		return v, err
	}
	if v.Blockers, err = authority.Blockers(ctx, db); err != nil {
		return v, err
	}
	latest, err := latestOf(ctx, db, x, fences, changes)
	if err != nil || len(fences) == 0 {
		return v, err
	}
	for _, f := range fences {
		v.Fences = append(v.Fences, newFenceRow(x, f, v.Writers, latest[f.Scope], v.Holds))
	}
	v.draw()
	// which tables have lost their fence is asked with any scope
	d, err := authority.Doctor(ctx, db, fences[0].Scope)
	v.Guards = d.Guards
	return v, err
}

// latest is what the last changes have left of a scope.
type latest struct {
	change rail.UUID // the newest
	phase  string
	window moment // its end, while a way back is open: of an older one, where the way back is being taken
}

// latestOf is the latest of every fence, by its scope.
func latestOf(ctx context.Context, db pg.DB, x moments, fences []authority.Fence, changes []authority.Change) (map[string]latest, error) {
	left := map[string]latest{}
	add := func(ch authority.Change) {
		l, ok := left[ch.Scope]
		if !ok {
			l.change, l.phase = ch.ID, ch.Phase
		}
		if w := openWindow(x, ch); w.Known() {
			l.window = w
		}
		left[ch.Scope] = l
	}
	for _, ch := range changes {
		add(ch)
	}
	for _, f := range fences {
		if _, ok := left[f.Scope]; ok || f.Change.IsZero() {
			continue
		}
		ch, err := authority.ChangeOf(ctx, db, f.Change)
		if err != nil {
			return nil, err
		}
		add(ch)
	}
	return left, nil
}

func newFenceRow(x moments, f authority.Fence, writers []authority.Writer, l latest, holds []holdRow) fenceRow {
	row := fenceRow{
		Scope: f.Scope, Label: f.Scope, Writer: f.Writer, Epoch: f.Epoch, State: f.State, Since: x.of(f.ChangedAt), Deadline: x.maybe(f.Deadline),
		Change: l.change, Phase: l.phase, Window: l.window, Holds: len(holdsOf(holds, f.Scope)),
	}
	if f.Bucket != nil {
		row.Label = f.Scope[len(f.Scope)-2:]
	}
	for _, w := range writers {
		if w.Name == f.Writer {
			row.Kind = w.Kind
		}
	}
	return row
}

// openWindow is when the way back of a change ends, where one is open.
func openWindow(x moments, ch authority.Change) moment {
	if ch.Phase != "advanced" || ch.WindowEndsAt == nil || !ch.WindowEndsAt.After(x.now) {
		return moment{}
	}
	return x.of(*ch.WindowEndsAt)
}

// draw puts the buckets in their places, and counts them. A bucket without a fence is
// the rail's.
func (v *authorityView) draw() {
	v.Buckets = make([]fenceRow, rail.Buckets)
	for i := range v.Buckets {
		label := fmt.Sprintf("%02d", i)
		v.Buckets[i] = fenceRow{Scope: "matters/bucket-" + label, Label: label, Writer: "rail", Kind: "rail", Epoch: 1}
	}
	for _, f := range v.Fences {
		if i := slices.IndexFunc(v.Buckets, func(b fenceRow) bool { return b.Scope == f.Scope }); i >= 0 {
			v.Buckets[i] = f
		}
		if f.State != "open" {
			v.Closed++
		}
	}
	for _, b := range v.Buckets {
		if b.Kind == "rail" {
			v.Rails++
		}
		i := slices.IndexFunc(v.Shares, func(s share) bool { return s.Writer == b.Writer })
		if i < 0 {
			i, v.Shares = len(v.Shares), append(v.Shares, share{Writer: b.Writer})
		}
		v.Shares[i].N++
	}
}

func readHolds(ctx context.Context, db pg.DB, x moments) ([]holdRow, error) {
	holds, err := authority.Holds(ctx, db, false)
	return holdRows(x, holds), err
}

func holdRows(x moments, holds []authority.Hold) (rows []holdRow) {
	for _, h := range holds {
		rows = append(rows, holdRow{h.ID, h.Scope, h.Watch, string(h.Details), x.of(h.RaisedAt)})
	}
	return rows
}

// holdsOf are those that stop the widening of a scope.
func holdsOf(holds []holdRow, scope string) (of []holdRow) {
	for _, h := range holds {
		if h.Scope == "" || h.Scope == scope {
			of = append(of, h)
		}
	}
	return of
}

func changeRows(x moments, changes []authority.Change) (rows []changeRow) {
	for _, ch := range changes {
		rows = append(rows, changeRow{
			ID: ch.ID, Scope: ch.Scope, Direction: ch.Direction, From: ch.From, To: ch.To, Phase: ch.Phase, Pause: pauseText(ch.MeasuredPause),
			Planned: x.of(ch.PlannedAt), Window: openWindow(x, ch),
		})
	}
	return rows
}

// scopeView is one scope: where it stands, and what happened to it.
type scopeView struct {
	Scope   string
	Fence   *fenceRow
	Guards  []string
	Holds   []holdRow
	Next    nextStep
	Changes []changeRow
}

var scopeName = regexp.MustCompile(`^(matters/bucket-([0-5][0-9]|6[0-3])|system|fixture/[a-z0-9][a-z0-9-]{0,60})$`)

func (c *Console) readScope(ctx context.Context, q url.Values) (v any, err error) {
	scope := q.Get("of")
	if !scopeName.MatchString(scope) {
		return nil, wrongf("of=: %q is not a scope: matters/bucket-00 to matters/bucket-63, system, or fixture/NAME", clip(80, scope))
	}
	err = c.snapshot(ctx, func(tx pgx.Tx, x moments) error {
		v, err = newScopeView(ctx, tx, x, scope)
		return err
	})
	return v, err
}

func newScopeView(ctx context.Context, db pg.DB, x moments, scope string) (v scopeView, err error) {
	v.Scope = scope
	d, err := authority.Doctor(ctx, db, scope)
	if err != nil {
		return v, err
	}
	v.Holds = holdRows(x, d.Holds)
	v.Guards, v.Next = d.Guards, nextStep{d.Next, d.Why}
	changes, err := authority.Changes(ctx, db, scope, mostChanges)
	if err != nil || d.Fence == nil {
		return v, err
	}
	v.Changes = changeRows(x, changes)
	writers, err := authority.Writers(ctx, db)
	if err != nil {
		return v, err
	}
	left, err := latestOf(ctx, db, x, []authority.Fence{*d.Fence}, changes)
	row := newFenceRow(x, *d.Fence, writers, left[scope], v.Holds)
	v.Fence = &row
	return v, err
}

// gone tells of a change that there is none.
func gone(err error) error {
	if errors.Is(err, authority.ErrUnknown) {
		return noChange{errors.New("the ledger has no such change: none of this id was ever planned")}
	}
	return err
}
