package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// dispatchView is the pauses, and what a change of them would do.
type dispatchView struct {
	At     moment `json:"-"`
	Pauses []pauseRow
	Firms  []firmRow

	Verb, Scope     string // of the preview; "" for none
	Queued, Running int64
	Known           bool // the ledger has seen the firm
}

func (c *Console) readDispatch(ctx context.Context, q url.Values) (any, error) {
	st, err := audit.ReadStatus(ctx, c.opts.DB)
	if err != nil {
		return nil, err
	}
	x := moments{st.At}
	n := nowView{}
	n.firms(x, st)
	v := dispatchView{At: x.of(st.At), Pauses: pauseRows(x, st.Pauses), Firms: n.Firms, Verb: q.Get("verb"), Scope: q.Get("scope")}
	if v.Verb == "" {
		return v, nil
	}
	firm, err := scopeOf(v.Verb, v.Scope)
	if err != nil {
		return nil, err
	}
	if v.Queued, v.Running, err = held(ctx, c.opts.DB, firm); err != nil {
		return nil, err
	}
	v.Known = firm.IsZero() || v.Queued+v.Running > 0
	if !v.Known {
		v.Known, err = audit.KnownFirm(ctx, c.opts.DB, firm)
	}
	return v, err
}

// scopeOf reads what a pause is of: a firm, or all of them, which has to be said.
func scopeOf(verb, scope string) (rail.UUID, error) {
	if !slices.Contains([]string{"pause", "resume"}, verb) {
		return rail.UUID{}, wrongf("verb=%q: use pause or resume", clip(20, verb))
	}
	if scope == "all" {
		return rail.UUID{}, nil
	}
	if scope == "" {
		return rail.UUID{}, wrongf("name a firm, or all")
	}
	return firmOf(scope)
}

// held counts what a pause of the scope holds back, and what it lets go on.
func held(ctx context.Context, db pg.DB, firm rail.UUID) (queued, running int64, err error) {
	f := audit.BulkFilter{Firm: firm, All: firm.IsZero(), Status: "queued"}
	if queued, err = audit.BulkCount(ctx, db, f); err != nil {
		return 0, 0, err
	}
	f.Status = "running"
	running, err = audit.BulkCount(ctx, db, f)
	return queued, running, err
}

// pauseOrResume changes a pause.
func (c *Console) pauseOrResume(w http.ResponseWriter, r *http.Request, s *session) {
	act, err := c.actor(r, s)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	verb, scope := r.PostForm.Get("verb"), r.PostForm.Get("scope")
	firm, err := scopeOf(verb, scope)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	err = c.within(r, func(ctx context.Context, tx pgx.Tx) error {
		do := act.Pause
		if verb == "resume" {
			do = act.Resume
		}
		changed, err := do(ctx, tx, firm)
		if err == nil && !changed {
			err = refusedf("dispatch of %s: nothing to %s, it is so already", scope, verb)
		}
		return err
	})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.did(r, s, act, "dispatch."+verb, scope)
	s.say(fmt.Sprintf("Dispatch of %s: %sd (%s).", scope, verb, act.Reason))
	redirect(w, "dispatch")
}
