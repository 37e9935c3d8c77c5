package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/model/specs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

const lease = time.Hour

// act does on the real code what the edge says; it complains where the answer is
// another one than the edge's.
func (m *matter) act(ctx context.Context, a specs.LedgerAct, to specs.LedgerState) error {
	w := m.workers[a.Who]
	switch a.Kind {
	case specs.LedgerClaims:
		return m.claim(ctx, int(a.Who), to)
	case specs.LedgerDemand:
		return m.demand(ctx, to)
	case specs.LedgerSweeps:
		return m.sweep(ctx, to)
	case specs.LedgerLapses, specs.LedgerPauses:
		_, err := m.db.work.Conn.Exec(ctx, expireSQL, m.key.Firm, m.key.Matter)
		return err
	case specs.LedgerRewinds:
		delete(m.outcomes, w.claim.Token.Run)
		_, err := m.db.failover.Exec(ctx, rewindSQL, m.key.Firm, m.key.Matter, m.image, w.claim.Token.Run)
		return err
	case specs.LedgerBuilds:
		w.built = true
		return nil
	case specs.LedgerRenews, specs.LedgerRenewFenced:
		return m.renew(ctx, a, w)
	case specs.LedgerCrashes:
		m.crash(w, a.Who)
		return nil
	case specs.LedgerLands, specs.LedgerLandFenced, specs.LedgerLandUnheard, specs.LedgerLandCut:
		return m.land(ctx, a, w, to)
	case specs.LedgerSettlesLanded, specs.LedgerSettlesOpen, specs.LedgerSettlesRefused:
		return m.settle(ctx, a, w)
	case specs.LedgerFails, specs.LedgerFailFenced, specs.LedgerGivesUp, specs.LedgerGiveUpFenced, specs.LedgerReleases, specs.LedgerReleaseFenced:
		return m.giveUp(ctx, a, w, to)
	default:
		return errors.New("the driver does not know this step")
	}
}

func (m *matter) retry() runs.Retry {
	return runs.Retry{MaxAttempts: m.db.attempts, Backoff: m.db.patience, BackoffMax: m.db.patience}
}

func (m *matter) claim(ctx context.Context, who int, to specs.LedgerState) error {
	if m.db.patience > 0 { // a settle time or a backoff is over
		if _, err := m.db.work.Conn.Exec(ctx, ageSQL, m.key.Firm, m.key.Matter); err != nil {
			return err
		}
	}
	m.image = m.now.Image
	got, err := m.claimNow(ctx, who)
	switch {
	case err != nil:
		return err
	case len(got) != 1 || got[0].Key != m.key:
		return fmt.Errorf("claimed %d jobs, want this one", len(got))
	case uint16(got[0].Attempt) != to.Row.Attempts || uint16(got[0].Token.Generation) != to.Row.Claimed:
		return fmt.Errorf("claimed generation %d at attempt %d, want %d and %d", got[0].Token.Generation, got[0].Attempt, to.Row.Claimed, to.Row.Attempts)
	}
	covered := m.asked - uint8(m.now.Owed)
	m.workers[who] = &worker{claim: got[0], seen: covered + uint8(got[0].Demands)}
	m.outcomes[got[0].Token.Run] = "running"
	return nil
}

func (m *matter) claimNow(ctx context.Context, who int) ([]runs.Claimed, error) {
	o := runs.ClaimOptions{Worker: fmt.Sprintf("w%d", who), Builder: "conformance", Lease: lease}
	return runs.ClaimSettled(ctx, m.db.work, 1, o, func(context.Context, int) {})
}

func (m *matter) demand(ctx context.Context, to specs.LedgerState) error {
	got, err := jobs.Demand(ctx, m.db.work, []jobs.Want{{Key: m.key, Count: 1, Priority: rail.Standard, Quiet: m.db.patience}}, time.Hour)
	if err != nil {
		return err
	}
	m.asked++
	if len(got) != 1 || uint16(got[0].Requested) != to.Row.Requested || got[0].Status != to.Row.Status.String() {
		return fmt.Errorf("answered %+v, want generation %d, %s", got, to.Row.Requested, to.Row.Status)
	}
	return nil
}

func (m *matter) sweep(ctx context.Context, to specs.LedgerState) error {
	run := m.now.Run
	got, err := m.sweepNow(ctx)
	switch {
	case err != nil:
		return err
	case len(got) != 1 || got[0].Key != m.key || got[0].Token.Run != run || got[0].Status != to.Row.Status.String():
		return fmt.Errorf("swept %+v, want this matter, run %s, %s", got, run, to.Row.Status)
	}
	m.outcomes[run] = "expired"
	return nil
}

func (m *matter) sweepNow(ctx context.Context) ([]sweep.Expired, error) {
	return sweep.Expire(ctx, m.db.work, 10, m.retry())
}

// renew: a worker that learns that it is fenced stops its build and notes it.
func (m *matter) renew(ctx context.Context, a specs.LedgerAct, w *worker) error {
	got, err := jobs.Renew(ctx, m.db.work, []jobs.Claim{w.claim.Claim}, lease)
	if err != nil {
		return err
	}
	want := jobs.Renewed
	if a.Kind == specs.LedgerRenewFenced {
		want = jobs.Fenced
	}
	if got[0] == jobs.Fenced {
		m.workers[a.Who] = nil
		err = runs.NoteRefused(ctx, m.db.work, w.claim.Token.Run, false)
	}
	if got[0] != want {
		return fmt.Errorf("the renewal is answered %d, want %d", got[0], want)
	}
	return err
}

func (m *matter) crash(w *worker, who int8) {
	if w.landing != nil {
		w.landing.crash()
	}
	if m.now.Run == w.claim.Token.Run {
		m.dead[m.now.Run] = true
	}
	m.workers[who] = nil
}

// stand brings a worker with a frame before the first statement of its landing.
func (m *matter) stand(ctx context.Context, w *worker) {
	if w.landing == nil {
		l := m.db.frame
		l.Claim, l.Quiet = w.claim.Claim, m.db.patience
		w.landing = m.db.work.begin(ctx, l)
	}
}

func (m *matter) land(ctx context.Context, a specs.LedgerAct, w *worker, to specs.LedgerState) error {
	m.stand(ctx, w)
	switch a.Kind {
	case specs.LedgerLandUnheard:
		m.outcomes[w.claim.Token.Run] = "landed"
		return m.unsure(w, order{deaf: true})
	case specs.LedgerLandCut:
		return m.unsure(w, order{err: errLost})
	}
	v := w.landing.tell(order{})
	if w.landing.where == atQuestion { // zero rows: it asks whether an earlier try had landed
		v = w.landing.tell(order{})
	}
	if w.landing.where != ended {
		return fmt.Errorf("the landing did not end, it stands %s", w.landing.where)
	}
	m.workers[a.Who] = nil
	if a.Kind == specs.LedgerLandFenced {
		return m.refused(ctx, w, v.err, true)
	}
	m.outcomes[w.claim.Token.Run] = "landed"
	if v.err == nil && (v.landed.Ambiguous || v.landed.FollowUp != (to.Row.Status == specs.StatusQueued)) {
		return fmt.Errorf("answered %+v, want the row %s", v.landed, to.Row.Status)
	}
	return v.err
}

// unsure loses a landing's answer; the worker then wants to ask.
func (m *matter) unsure(w *worker, o order) error {
	v := w.landing.tell(o)
	if v.err == nil && w.landing.where != atQuestion {
		return fmt.Errorf("after a lost answer it stands %s: %+v", w.landing.where, v)
	}
	return v.err
}

// settle lets the question through.
func (m *matter) settle(ctx context.Context, a specs.LedgerAct, w *worker) error {
	v := w.landing.tell(order{})
	if w.landing.where == ended {
		m.workers[a.Who] = nil
	}
	switch {
	case a.Kind == specs.LedgerSettlesRefused:
		return m.refused(ctx, w, v.err, w.landing.where == ended)
	case a.Kind == specs.LedgerSettlesLanded && (v.err != nil || !v.landed.Ambiguous):
		return fmt.Errorf("answered %+v", v)
	}
	return v.err
}

// refused is a write that the fence kept out: it must be told as such, and is noted
// on the run where that has a row.
func (m *matter) refused(ctx context.Context, w *worker, err error, over bool) error {
	switch {
	case err == nil || !over:
		return errors.New("it should have been refused")
	case !errors.Is(err, runs.ErrFenced):
		return err
	}
	run := w.claim.Token.Run
	outcome, err := runs.Outcome(ctx, m.db.work, run)
	if err != nil || outcome == "landed" {
		return err // nobody was refused: the answer to its landing was lost
	}
	if was, ok := m.outcomes[run]; ok {
		m.outcomes[run] = was + ", late"
	}
	return runs.NoteRefused(ctx, m.db.work, run, true)
}

// giveUp ends a claim without a frame, or with one that cannot be landed.
func (m *matter) giveUp(ctx context.Context, a specs.LedgerAct, w *worker, to specs.LedgerState) error {
	released := a.Kind == specs.LedgerReleases || a.Kind == specs.LedgerReleaseFenced
	permanent := a.Kind == specs.LedgerGivesUp || a.Kind == specs.LedgerGiveUpFenced
	fenced := a.Kind == specs.LedgerFailFenced || a.Kind == specs.LedgerGiveUpFenced || a.Kind == specs.LedgerReleaseFenced
	if err := m.abandon(ctx, w, released, permanent); err != nil {
		return err
	}
	m.workers[a.Who] = nil
	var end runs.End
	var err error
	outcome := "failed"
	if released {
		outcome = "released"
		end, err = runs.Release(ctx, m.db.work, w.claim.Claim, runs.Failure{Kind: "interrupted"}, m.db.patience)
	} else {
		end, err = runs.Fail(ctx, m.db.work, w.claim.Claim, runs.Failure{Kind: "other", Permanent: permanent}, m.retry())
	}
	switch {
	case fenced:
		return m.refused(ctx, w, err, true)
	case err != nil:
		return err
	case end.Status != to.Row.Status.String() || uint16(end.Attempts) != to.Row.Attempts:
		return fmt.Errorf("answered %+v, want %s at attempt %d", end, to.Row.Status, to.Row.Attempts)
	}
	m.outcomes[w.claim.Token.Run] = outcome
	return nil
}

// abandon ends a landing under way: the database refuses the frame, for this matter or
// for everybody, or the worker is stopped before it knows.
func (m *matter) abandon(ctx context.Context, w *worker, released, permanent bool) error {
	if !w.built {
		return nil
	}
	m.stand(ctx, w)
	var err error = errBroken
	switch {
	case w.landing.where == atQuestion:
		w.landing.stop(context.Canceled)
		err = errLost
	case released:
		err = errNotAllow
	case permanent:
		err = errRefused
	}
	if v := w.landing.tell(order{err: err}); w.landing.where != ended || v.err == nil || errors.Is(v.err, runs.ErrFenced) {
		return fmt.Errorf("the landing should have been given up; it stands %s: %+v", w.landing.where, v)
	}
	return nil
}
