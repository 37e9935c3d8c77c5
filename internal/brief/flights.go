package brief

import (
	"context"
	"errors"
	"sync"
	"time"

	"briefrail/internal/rail"
)

const (
	keepAnswers   = 5 * time.Minute
	keepAnswerMax = 64 << 20 // bytes of kept answers, all together
)

// errOtherRequest says that a run_id came back with other contents.
var errOtherRequest = errors.New("this run_id came before with another request")

// flights lets requests of one run_id share one build. A request that comes while
// the build is under way waits for it; one that comes within five minutes after a
// success gets the same bytes. Failures are not kept: they may pass. When the last
// waiting request goes, its build is cancelled.
type flights struct {
	mu    sync.Mutex
	byRun map[rail.UUID]*flight
	kept  []*flight // finished and answered well, oldest first
	bytes int       // of kept answers
}

type flight struct {
	req      Request
	waiting  int
	cancel   context.CancelFunc
	done     chan struct{} // closed when answer and err are set
	answer   []byte
	err      error
	finished time.Time
}

func newFlights() *flights { return &flights{byRun: map[rail.UUID]*flight{}} }

// do returns the answer to req, from build if nobody is at it.
func (f *flights) do(ctx context.Context, req Request, build func(context.Context) ([]byte, error)) ([]byte, error) {
	fl, err := f.join(ctx, req, build)
	if err != nil {
		return nil, err
	}
	defer f.leave(fl)
	select {
	case <-fl.done:
		return fl.answer, fl.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *flights) join(ctx context.Context, req Request, build func(context.Context) ([]byte, error)) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetOld(time.Now())
	if fl := f.byRun[req.Run]; fl != nil {
		if !fl.req.same(req) {
			return nil, errOtherRequest
		}
		fl.waiting++
		return fl, nil
	}
	// The build belongs to all who wait for it, not to the first of them.
	buildCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fl := &flight{req: req, waiting: 1, cancel: cancel, done: make(chan struct{})}
	f.byRun[req.Run] = fl
	go func() {
		answer, err := build(buildCtx)
		f.finish(fl, answer, err)
	}()
	return fl, nil
}

// same leaves the deadline out: a repeated request may have a later one.
func (r Request) same(o Request) bool {
	return r.Key == o.Key && r.Generation == o.Generation && r.Attempt == o.Attempt && r.RetryOf == o.RetryOf
}

func (f *flights) finish(fl *flight, answer []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.cancel()
	fl.answer, fl.err, fl.finished = answer, err, time.Now()
	close(fl.done)
	switch {
	case f.byRun[fl.req.Run] != fl: // everybody left
	case err != nil:
		delete(f.byRun, fl.req.Run)
	default:
		f.kept = append(f.kept, fl)
		f.bytes += len(answer)
		f.forgetOld(fl.finished)
	}
}

// leave counts one request out; the last one to go ends a build under way.
func (f *flights) leave(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.waiting--
	if fl.waiting > 0 || !fl.finished.IsZero() {
		return
	}
	fl.cancel()
	delete(f.byRun, fl.req.Run)
}

func (f *flights) forgetOld(now time.Time) {
	for len(f.kept) > 0 {
		oldest := f.kept[0]
		if f.bytes <= keepAnswerMax && now.Sub(oldest.finished) < keepAnswers {
			return
		}
		f.kept = f.kept[1:]
		f.bytes -= len(oldest.answer)
		delete(f.byRun, oldest.req.Run)
	}
}
