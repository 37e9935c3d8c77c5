package authority

import (
	"context"
	"fmt"
	"strings"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ShadowFrame is what the rail would have landed.
type ShadowFrame struct {
	JSON          []byte
	Digest        [32]byte // of the canonical form, as frames.Check has it
	SchemaVersion string
	Builder       string
}

// ShadowOptions say how the rail builds in the shadow. Build must have no effects: its
// frame is never current. DB reads the imported frames and keeps the shadows, under a
// role that may (rail_worker); nil is the controller's own.
type ShadowOptions struct {
	DB    pg.DB
	Build func(ctx context.Context, k rail.Key) (ShadowFrame, error)
	Rules []Rule
	// Lag tells whether the two were made from different records, as the record moves on
	// between the old writer's build and this one. Whatever differs then is ProjectionLag.
	// nil: they never are.
	Lag func(imported, built []byte) (bool, error)
}

// movedOn explains every difference of two frames that Lag told apart.
var movedOn = []Rule{{Name: "record_moved_on", Class: ProjectionLag, Path: "**"}} // constant: never assigned

// ShadowClass counts matters by how their newest shadow compares.
type ShadowClass struct {
	Difference string `json:"difference" db:"difference"`
	Rule       string `json:"rule" db:"rule"`
	Matters    int64  `json:"matters" db:"matters"`
}

// shadowPage is how many frames are read at once: they may be large.
const shadowPage = 16

type imported struct {
	Firm     rail.UUID `db:"firm"`
	Matter   rail.UUID `db:"matter"`
	Sequence int64     `db:"sequence"`
	Frame    []byte    `db:"frame"`
	Digest   []byte    `db:"digest"`
}

// Shadow builds what the rail would have built for every matter of the scope whose
// newest imported frame has no shadow yet, compares the two, and stores how that went.
// It may be ended and repeated at any time. A difference that is Unexplained, or a
// MigrationDefect, keeps the scope from closing.
func (c Controller) Shadow(ctx context.Context, change rail.UUID, o ShadowOptions) (Change, []ShadowClass, error) {
	if o.DB == nil {
		o.DB = c.DB
	}
	ch, err := ChangeOf(ctx, c.DB, change)
	if err != nil {
		return Change{}, nil, err
	}
	for o.Build != nil && ch.Outcome == "" {
		page, err := list[imported](ctx, o.DB, "Shadow", `SELECT firm, matter, sequence, frame, digest FROM ops.shadow_todo($1, $2)`, ch.Scope, shadowPage)
		if err != nil {
			return ch, nil, err
		}
		for _, i := range page {
			if err := o.one(ctx, i); err != nil {
				return ch, nil, err
			}
		}
		if len(page) < shadowPage {
			break
		}
	}
	return c.compared(ctx, ch)
}

// compared stores the summary of all comparisons.
func (c Controller) compared(ctx context.Context, ch Change) (Change, []ShadowClass, error) {
	sum, err := list[ShadowClass](ctx, c.DB, "Shadow", `SELECT difference, rule, matters FROM ops.shadow_summary($1)`, ch.Scope)
	if err != nil {
		return ch, nil, err
	}
	ch, err = c.step(ctx, "Shadow", `ops.shadow_change($1, $2, $3, $4)`, ch.ID, asText(sum), c.Actor.Name, c.Actor.Reason)
	return ch, sum, err
}

func (o ShadowOptions) one(ctx context.Context, i imported) error {
	key := rail.Key{Firm: i.Firm, Matter: i.Matter}
	f, err := o.Build(ctx, key)
	if err != nil {
		return fmt.Errorf("authority.Shadow(%s): build: %w", key, err)
	}
	rules := o.Rules
	if o.Lag != nil {
		moved, err := o.Lag(i.Frame, f.JSON)
		if err != nil {
			return fmt.Errorf("authority.Shadow(%s): %w", key, err)
		}
		if moved {
			rules = movedOn
		}
	}
	d, err := Compare(i.Frame, f.JSON, rules)
	if err != nil {
		return fmt.Errorf("authority.Shadow(%s): %w", key, err)
	}
	var rule *string
	if d.Class != Same && d.Class != Unexplained {
		names := strings.Join(d.Rules, ", ")
		rule = &names
	}
	_, err = o.DB.Exec(ctx, `SELECT ops.keep_shadow($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		i.Firm, i.Matter, i.Sequence, string(f.JSON), f.Digest[:], f.SchemaVersion, f.Builder, d.Class, rule, d.Details)
	return wrap("Shadow("+key.String()+")", err)
}
