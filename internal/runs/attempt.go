package runs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// attempt is the life of one claim. ctx ends when the token is lost, the lease
// lapses, or the grace of a stop is over; its cause says which.
func (r *Runner) attempt(ctx, work context.Context, c Claimed) {
	a := &attempt{r: r, c: c, work: work, started: time.Now()}
	ctx, ended := a.traced(ctx)
	defer ended()
	r.opts.Log.InfoContext(ctx, "run started", append(keyAttrs(c.Claim), slog.Int("attempt", c.Attempt), slog.Int64("demands", c.Demands), slog.Int64("authority_epoch", c.Authority))...)
	frame, usage, err := a.build(ctx)
	a.usage = usage
	if err == nil {
		err = a.land(ctx, frame, usage)
	}
	if err != nil {
		a.end(ctx, err)
	}
	a.wideLine(ctx)
}

type attempt struct {
	r       *Runner
	c       Claimed
	work    context.Context // the worker's own: ends when the grace of a stop is over
	started time.Time
	usage   Usage
	// how it ended, for metrics and the one line in the log
	outcome, kind string
	err           error
}

func (a *attempt) canary() bool { return a.c.Key == rail.Canary() }

// build runs the builder.
func (a *attempt) build(ctx context.Context) (Frame, Usage, error) {
	if ctx.Err() != nil { // claimed in the instant of a stop: nothing is paid for it
		return Frame{}, Usage{}, context.Cause(ctx)
	}
	build, cancel := context.WithTimeoutCause(ctx, a.r.opts.BuildTimeout, errTimeout)
	defer cancel()
	b := a.r.builder
	if a.canary() {
		b = canaryBuilder{}
	}
	deadline, _ := build.Deadline()
	frame, usage, err := a.buildTraced(build, b, Request{
		Key: a.c.Key, Token: a.c.Token, Attempt: a.c.Attempt, RetryOf: a.c.RetryOf, Deadline: deadline,
	})
	if err != nil && build.Err() != nil {
		// why the context ended says more than how the builder took it
		err = errors.Join(context.Cause(build), err)
	}
	if !a.canary() {
		a.r.builderSaid(ctx, a.c.Claim, err)
	}
	return frame, usage, err
}

// land checks the frame and lands it. From here on only the loss of the token ends
// the attempt: what may have landed is never given up for a stop, nor a frame
// thrown away because a lease ran out while the database was away. The token
// decides, never the clock.
func (a *attempt) land(ctx context.Context, f Frame, u Usage) error {
	checked, err := frames.Check(f.JSON, a.r.opts.MaxFrame)
	if err != nil {
		return err
	}
	ctx, cancel := untilTokenLost(ctx, a.work)
	defer cancel()
	ctx, landed := a.r.opts.Tracer.Begin(ctx, rail.Span{Name: "land"})
	out, err := LandSettled(ctx, a.r.db, Landing{
		Claim: a.c.Claim, Frame: f, Digest: checked.Digest, Usage: u, Quiet: a.r.opts.Quiet,
		Failed: func(try int, err error) { a.notYet(ctx, try, err) },
	}, pauseBetweenTries)
	landed(pg.Text(err, 300))
	if err != nil {
		return err
	}
	a.outcome = "landed"
	a.r.metrics.landed(a, out)
	if out.FollowUp {
		a.r.Wake()
	}
	a.pruneFrames(ctx)
	return nil
}

// notYet says, ever more rarely, that a built frame waits for the database: nothing
// else would, as its lease is renewed all the while.
func (a *attempt) notYet(ctx context.Context, try int, err error) {
	if try&(try-1) == 0 && !errors.Is(err, ErrFenced) {
		a.r.opts.Log.WarnContext(ctx, "frame not landed yet", append(keyAttrs(a.c.Claim), slog.Int("try", try), slog.String("err", pg.Text(err, 200)))...)
	}
}

// untilTokenLost outlives a stop by the time that a landing under way needs, and
// the lease; the loss of the token ends it at once.
func untilTokenLost(ctx, work context.Context) (context.Context, context.CancelFunc) {
	land, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	lost := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, errTokenLost) {
			cancel(cause)
		}
	})
	stop := context.AfterFunc(work, func() {
		late := time.AfterFunc(stopLanding, func() { cancel(errStopping) })
		context.AfterFunc(land, func() { late.Stop() })
	})
	return land, func() { lost(); stop(); cancel(nil) }
}

// stopLanding is how long a landing may still take once the grace of a stop is
// over. Short enough for every platform's own patience.
const stopLanding = 5 * time.Second

func pauseBetweenTries(ctx context.Context, try int) {
	wait := min(50*time.Millisecond<<min(try, 6), 2*time.Second)
	timer := time.NewTimer(wait/2 + rand.N(wait/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// pruneFrames keeps a hot matter's frames bounded between the sweeps of retention;
// one landing in eight pays for it.
func (a *attempt) pruneFrames(ctx context.Context) {
	if rand.N(8) != 0 {
		return
	}
	if _, err := frames.Prune(ctx, a.r.db, []rail.Key{a.c.Key}, a.r.opts.KeepFrames); err != nil {
		a.r.opts.Log.DebugContext(ctx, "frames not pruned", slog.String("err", pg.Text(err, 200)))
	}
}

// end records an attempt that did not land, on a context of its own: the
// attempt's may be what ended it.
func (a *attempt) end(ctx context.Context, err error) {
	a.err = err
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	var refused error
	switch {
	case errors.Is(err, ErrFenced):
		// of a token that is live all the same only authority over the matter has moved:
		// the claim goes back, and whoever writes now may take it
		if a.release(clean, Failure{Kind: "authority", Text: "authority over the matter has moved; no attempt is charged"}, 0) != nil {
			a.refused(clean, "land")
		}
		return
	case errors.Is(err, errTokenLost):
		// noticed in time: nothing was written late
		a.outcome, a.kind = "fenced", "fenced"
		a.r.metrics.rejections.WithLabelValues("renew").Inc()
		a.r.metrics.staleHolder.WithLabelValues("holder").Inc()
		a.note(clean, false)
		return
	case errors.Is(err, errLeaseLost):
		// whoever sweeps charges the attempt; we can only stop
		a.outcome, a.kind = "expired", "lease_lost"
		a.r.metrics.staleHolder.WithLabelValues("holder").Inc()
		return
	case errors.Is(err, errStopping):
		refused = a.release(clean, Failure{Kind: "interrupted", Text: "the worker stopped; no attempt is charged"}, 0)
	default:
		refused = a.failOrRelease(clean, err)
	}
	if errors.Is(refused, ErrFenced) {
		a.refused(clean, map[string]string{"released": "release"}[a.outcome])
	} else if refused != nil {
		// the lease runs out and the sweep does it instead
		a.err = errors.Join(err, refused)
	}
}

func (a *attempt) failOrRelease(ctx context.Context, err error) error {
	f, class := failureOf(err)
	f.Usage = a.usage
	if class == Unavailable && f.Kind == "other" {
		// the landing itself is refused for everybody: nobody pays for more until it is not
		a.r.builderSaid(ctx, a.c.Claim, &BuildError{Class: Unavailable, Kind: f.Kind, Text: f.Text})
	}
	if class == Unavailable || (class == Transient && a.r.health.isPaused()) {
		return a.release(ctx, f, time.Second)
	}
	a.outcome, a.kind = "failed", f.Kind
	end, err := a.ending(ctx, func() (End, error) { return Fail(ctx, a.r.db, a.c.Claim, f, a.r.opts.Retry) })
	if err == nil && end.Status == "parked" {
		a.r.opts.Log.ErrorContext(ctx, "matter parked", append(keyAttrs(a.c.Claim), slog.Int("attempt", end.Attempts), slog.String("err", f.Text))...)
	}
	return err
}

func (a *attempt) release(ctx context.Context, f Failure, delay time.Duration) error {
	a.outcome, a.kind = "released", f.Kind
	_, err := a.ending(ctx, func() (End, error) { return Release(ctx, a.r.db, a.c.Claim, f, delay) })
	return err
}

// ending writes the end of an attempt until the ledger has answered or ctx ends. A
// server that restarts just then must not cost the matter an attempt and a lease of
// waiting. Refused after a lost answer may mean that the lost one was kept: the run row
// tells, and then the end's own figures are not known.
func (a *attempt) ending(ctx context.Context, write func() (End, error)) (End, error) {
	lost := false
	for try := 1; ; try++ {
		end, err := write()
		switch {
		case lost && errors.Is(err, ErrFenced):
			if o, asked := Outcome(ctx, a.r.db, a.c.Token.Run); asked == nil && o == a.outcome {
				return End{}, nil
			}
			return end, err
		case !pg.IsTransient(err) && !pg.IsUnknownOutcome(err), ctx.Err() != nil:
			return end, err
		}
		lost = true
		pauseBetweenTries(ctx, try)
	}
}

// refused counts and notes a write that the fence kept out: the design at work,
// a page only when it becomes frequent.
func (a *attempt) refused(ctx context.Context, write string) {
	if write == "" {
		write = "fail"
	}
	if o, err := Outcome(ctx, a.r.db, a.c.Token.Run); err == nil && o == "landed" {
		// it had landed, and the answer was lost in a stop: nobody was refused
		a.outcome, a.kind, a.err = o, "", nil
		return
	}
	a.outcome, a.kind = "fenced", "fenced"
	a.r.metrics.rejections.WithLabelValues(write).Inc()
	a.r.metrics.staleHolder.WithLabelValues("storage").Inc()
	a.note(ctx, true)
}

func (a *attempt) note(ctx context.Context, late bool) {
	if err := NoteRefused(ctx, a.r.db, a.c.Token.Run, late); err != nil {
		a.r.opts.Log.WarnContext(ctx, "refusal not noted", slog.String("err", pg.Text(err, 200)))
	}
	// counted and logged under the word that its row has: cancelled, expired or fenced
	if o, err := Outcome(ctx, a.r.db, a.c.Token.Run); err == nil && o != "" && o != "running" {
		a.outcome = o
	}
}

// failureOf turns any error of an attempt into what the run row keeps.
func failureOf(err error) (Failure, BuildClass) {
	var build *BuildError
	var invalid *frames.InvalidError
	switch {
	case errors.As(err, &invalid):
		return Failure{Kind: KindInvalidFrame, Text: invalid.Error(), Permanent: true}, Permanent
	case errors.Is(err, errTimeout):
		return Failure{Kind: KindTimeout, Text: errTimeout.Error()}, Transient
	case errors.As(err, &build):
		hash, _ := hex.DecodeString(build.PreviewHash)
		return Failure{
			Kind: build.Kind, Text: build.Text, Permanent: build.Class == Permanent || build.Class == Mismatch,
			RetryAfter: build.RetryAfter, Preview: build.Preview, Hash: hash,
		}, build.Class
	case pg.Class(err) == "22" || pg.Class(err) == "23":
		// the database refused the frame itself: trying again cannot help
		return Failure{Kind: KindInvalidFrame, Text: pg.Text(err, 300), Permanent: true}, Permanent
	}
	class := Transient
	if pg.Class(err) == "42" || pg.SQLState(err) == "RF403" {
		// no right to write, or another schema than ours: nobody's matter is at fault
		class = Unavailable
	}
	return Failure{Kind: "other", Text: pg.Text(err, 300)}, class
}

// safely turns a builder's panic into a failure of its attempt.
func safely(b Builder) Builder { return guarded{b} }

type guarded struct{ b Builder }

func (g guarded) Build(ctx context.Context, r Request) (f Frame, u Usage, err error) {
	defer func() {
		// what it panicked with may hold document text: the type must do
		if p := recover(); p != nil {
			err = &BuildError{Class: Transient, Kind: KindPanic, Text: fmt.Sprintf("the builder panicked with a %T", p)}
		}
	}()
	return g.b.Build(ctx, r)
}

func keyAttrs(c jobs.Claim) []any {
	return []any{
		slog.String("firm_id", c.Key.Firm.String()), slog.String("matter_id", c.Key.Matter.String()),
		slog.String("run_id", c.Token.Run.String()), slog.Int64("token", c.Token.Generation),
		slog.String("trace_id", c.Token.TraceID()),
	}
}

// wideLine is the one line a run leaves in the log.
func (a *attempt) wideLine(ctx context.Context) {
	a.r.metrics.ended(a)
	attrs := append(keyAttrs(a.c.Claim), slog.Int("attempt", a.c.Attempt), slog.Int64("demands", a.c.Demands),
		slog.Int64("authority_epoch", a.c.Authority), slog.String("outcome", a.outcome), slog.Duration("took", time.Since(a.started)))
	level := slog.LevelInfo
	if a.err != nil {
		attrs = append(attrs, slog.String("kind", a.kind), slog.String("err", pg.Text(a.err, 300)))
	}
	if a.outcome != "landed" && a.outcome != "released" {
		level = slog.LevelWarn
	}
	a.r.opts.Log.Log(ctx, level, "run ended", attrs...)
}
