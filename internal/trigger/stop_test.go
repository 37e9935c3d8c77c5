package trigger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
)

// longPoll is a queue whose poll brings something after a while, or nothing.
type longPoll struct {
	Source
	brings   time.Duration // 0: nothing, until the wait is over
	polls    int
	released int
}

func (q *longPoll) Receive(ctx context.Context, _ int, wait time.Duration) ([]nudge.Message, error) {
	q.polls++
	comes := make(<-chan time.Time)
	if q.brings > 0 {
		comes = time.After(q.brings)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
		return nil, nil
	case <-comes:
		return []nudge.Message{{ID: "1", Body: []byte("junk"), ReceiveCount: 2}}, nil
	}
}

// Release refuses a context that has ended, as a call over the network would.
func (q *longPoll) Release(ctx context.Context, messages []nudge.Message) (int, error) {
	if ctx.Err() == nil {
		q.released += len(messages)
	}
	return 0, ctx.Err()
}

// failures counts turns that failed.
type failures struct {
	unwatched
	n int
}

func (f *failures) Failed(string, string) { f.n++ }

// A stop does not wait for an empty poll to end, takes that for no failure, starts no
// further poll, and handles what is on its way.
func TestAStopCutsAnEmptyPollOff(t *testing.T) {
	t.Parallel()
	const wait, running = 20 * time.Second, 3 * time.Second
	for name, c := range map[string]struct {
		brings   time.Duration
		lasts    time.Duration // from the stop to the end
		released int
	}{
		"nothing comes":               {0, lastPoll, 0},
		"something is on its way":     {running + lastPoll/2, lastPoll / 2, 1},
		"something would come later":  {running + 2*lastPoll, lastPoll, 0},
		"the stop finds it under way": {running + time.Millisecond, time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, log, loops := &longPoll{brings: c.brings}, &strings.Builder{}, &failures{}
				tr := New(nil, prometheus.NewRegistry(), Options{Loops: loops, Log: slog.New(slog.NewTextHandler(log, nil))})
				consumer := tr.NewConsumer(q, 1, wait)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- consumer.Run(ctx) }()
				time.Sleep(running)
				begun := time.Now()
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if took := time.Since(begun); took != c.lasts {
					t.Errorf("the stop took %s, want %s", took, c.lasts)
				}
				if q.polls != 1 || q.released != c.released {
					t.Errorf("%d polls, %d messages handed back; want 1, %d", q.polls, q.released, c.released)
				}
				if loops.n > 0 || log.Len() > 0 || consumer.Trouble() != nil {
					t.Errorf("%d failures, trouble %v, log %q", loops.n, consumer.Trouble(), log)
				}
			})
		})
	}
}
