package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// pageSize is how many matters one transaction of a bulk change takes: few enough
// to hold no row for long.
const pageSize = 500

// bulkDone tells how far a bulk change got.
type bulkDone struct {
	Action   string    `json:"action"`
	Matched  int64     `json:"matched"` // when it began
	Changed  int64     `json:"changed"` // would change, in a dry run
	Skipped  int64     `json:"skipped"` // not in a state that allows it
	Complete bool      `json:"complete"`
	Last     *rail.Key `json:"last,omitempty"` // where to go on with --after
	Error    string    `json:"error,omitempty"`
	DryRun   bool      `json:"dry_run"`
	keys     []string
}

// bulk is one change to many matters, a page a transaction.
type bulk struct {
	action string // for output: matter.demand and so on
	phrase string // "demand a rebuild of %d matter(s)"
	// page changes keys and returns those that it really changed
	page func(ctx context.Context, tx pgx.Tx, keys []rail.Key) ([]rail.Key, error)
}

func (s *session) bulk(ctx context.Context, c *change, sel *selection, b bulk) error {
	filter, after, err := sel.filter()
	if err != nil {
		return err
	}
	w := s.working("counting")
	matched, err := audit.BulkCount(ctx, s.pool, filter)
	w.end()
	if err != nil {
		return err
	}
	if err := s.knownFirm(ctx, filter.Firm, matched > 0); err != nil {
		return err
	}
	want := matched
	if sel.limit > 0 {
		want = min(want, int64(sel.limit))
	}
	if want > 0 {
		if err := s.confirm(c, true, b.phrase, want); err != nil {
			return err
		}
	}
	d := &bulkDone{Action: b.action, Matched: matched, DryRun: c.dryRun}
	err = s.pages(ctx, c, sel, filter, after, b, d)
	return s.showBulk(d, err)
}

// pages goes through the selection; d holds what was committed so far.
func (s *session) pages(ctx context.Context, c *change, sel *selection, filter audit.BulkFilter, after rail.Key, b bulk, d *bulkDone) error {
	w := s.working(b.action)
	defer w.end()
	seen := 0
	for !d.Complete {
		size := pageSize
		if sel.limit > 0 {
			size = min(size, sel.limit-seen)
		}
		keys, err := audit.BulkKeys(ctx, s.pool, filter, after, size)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := s.onePage(ctx, c, b, keys, d); err != nil {
				return err
			}
			after = keys[len(keys)-1]
			d.Last = &after
		}
		seen += len(keys)
		d.Complete = len(keys) < size || seen == sel.limit
		w.say("%d of %d", seen, d.Matched)
	}
	return nil
}

func (s *session) onePage(ctx context.Context, c *change, b bulk, keys []rail.Key, d *bulkDone) error {
	var changed []rail.Key
	err := s.commit(ctx, c, func(tx pgx.Tx) (err error) {
		changed, err = b.page(ctx, tx, keys)
		return err
	})
	if err != nil {
		return err
	}
	d.Changed += int64(len(changed))
	d.Skipped += int64(len(keys) - len(changed))
	for _, k := range changed {
		d.keys = append(d.keys, k.String())
	}
	return nil
}

// showBulk prints the result, a partial one too, and returns the error of the
// change.
func (s *session) showBulk(d *bulkDone, cause error) error {
	if cause != nil {
		d.Error = oneLine(cause.Error())
		cause = fmt.Errorf("stopped after %d of %d matter(s), which stay changed: %w", d.Changed+d.Skipped, d.Matched, cause)
	}
	err := s.show(view{kind: d.Action + ".many", data: d, names: d.keys, table: func(p *page) {
		p.line("%s %d of %d matter(s); %d skipped", would(d.DryRun, d.Action+" would change", d.Action+" changed"), d.Changed, d.Matched, d.Skipped)
		if cause != nil && d.Last != nil {
			p.line("go on with --after %s", *d.Last)
		}
	}})
	if cause != nil {
		return cause
	}
	return err
}
