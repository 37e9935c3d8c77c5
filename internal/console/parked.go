package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const (
	// mostAtOnce is how many matters one act unparks.
	mostAtOnce = 5000
	// pageSize is how many of them one transaction takes: few enough to hold no row
	// for long.
	pageSize = 200
)

func parkedFields() []string { return []string{"firm", "by", "reason", "hours", "preview"} }

// parkedView lists parked matters, and what unparking them would do.
type parkedView struct {
	At               moment `json:"-"`
	Firm, By, Reason string
	Hours            int
	Rows             []parkedRow
	Count            int  // of the filter
	More             bool // than can be counted, or unparked at once
	Preview          bool
}

type parkedRow struct {
	Key      rail.Key
	By       string
	Reason   string
	Parked   moment
	Owed     moment
	Attempts int
	Demands  int64
}

// parkedFilter reads the filter of an address or a form.
func parkedFilter(q url.Values) (f audit.ParkedFilter, hours int, err error) {
	f = audit.ParkedFilter{By: q.Get("by"), Reason: q.Get("reason")}
	if !slices.Contains([]string{"", "failures", "operator"}, f.By) {
		return f, 0, wrongf("by=%q: use failures or operator", clip(20, f.By))
	}
	if f.Firm, err = firmOf(q.Get("firm")); err != nil {
		return f, 0, err
	}
	hours, err = hoursOf(q.Get("hours"))
	f.Older = time.Duration(hours) * time.Hour
	return f, hours, err
}

func (c *Console) readParked(ctx context.Context, q url.Values) (any, error) {
	f, hours, err := parkedFilter(q)
	if err != nil {
		return nil, err
	}
	rows, err := audit.ParkedMatters(ctx, c.opts.DB, f, mostListed)
	if err != nil {
		return nil, err
	}
	keys, err := audit.ParkedKeys(ctx, c.opts.DB, f, mostAtOnce+1)
	if err != nil {
		return nil, err
	}
	x := moments{time.Now()}
	v := parkedView{
		At: x.of(x.now), Firm: q.Get("firm"), By: f.By, Reason: f.Reason, Hours: hours,
		Count: min(len(keys), mostAtOnce), More: len(keys) > mostAtOnce, Preview: q.Get("preview") != "",
	}
	for _, j := range rows {
		v.Rows = append(v.Rows, parkedRow{j.Key, j.ParkedBy, j.ParkedReason, x.maybe(j.QueuedAt), x.maybe(j.OwedSince), j.Attempts, j.DemandsOwed})
	}
	return v, nil
}

// unparkMany unparks what a preview counted, and nothing else: where the count is
// another one by now, a person looks again.
func (c *Console) unparkMany(w http.ResponseWriter, r *http.Request, s *session) {
	act, err := c.actor(r, s)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	f, _, err := parkedFilter(r.PostForm)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	keys, err := audit.ParkedKeys(r.Context(), c.opts.DB, f, mostAtOnce+1)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	keys = keys[:min(len(keys), mostAtOnce)]
	if want, err := strconv.Atoi(r.PostForm.Get("count")); err != nil || want != len(keys) {
		c.failed(w, r, refusedf("the preview counted %s, and now there are %d: look again", clip(12, r.PostForm.Get("count")), len(keys)))
		return
	}
	done, err := c.unpark(r.Context(), act, keys)
	c.did(r, s, act, "matter.unpark", fmt.Sprintf("%d of %d matters", done, len(keys)))
	if err != nil {
		c.failed(w, r, fmt.Errorf("stopped after %d of %d, which stay unparked: %w", done, len(keys), err))
		return
	}
	s.say(fmt.Sprintf("Unparked %s: %s.", plural(int64(done), "matter", "matters"), act.Reason))
	redirect(w, "parked")
}

// unpark unparks a page a transaction. What was unparked meanwhile is passed by.
func (c *Console) unpark(ctx context.Context, act jobs.Actor, keys []rail.Key) (done int, err error) {
	for page := range slices.Chunk(keys, pageSize) {
		n := 0
		err := pg.InTx(ctx, c.opts.DB, func(tx pgx.Tx) error {
			for _, k := range page {
				was, err := act.Unpark(ctx, tx, k)
				if err != nil {
					return err
				}
				if was {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// errRefused means that the ledger, or the console for its sake, did not do it.
var errRefused = errors.New("refused")

func refusedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
}
