package nudgetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge"
)

// Lacks names what a stand-in does not have. The contract then wants a plain refusal
// of it, so that a stand-in which has learned it is noticed.
type Lacks struct {
	Redrive bool // StartMessageMoveTask and ListMessageMoveTasks
}

// Contract is what every stand-in for AWS must do, and AWS itself: nudges go over the
// bus and come out of the queue, are settled, come back, die and are redriven.
func Contract(ctx context.Context, t *testing.T, endpoint string, lacks Lacks) {
	t.Helper()
	c := &contract{ctx: ctx, Rig: Build(ctx, t, endpoint, Shape{}), lacks: lacks}
	c.queue = c.Receiver(ctx, t)
	t.Run("preflight", c.preflight)
	sent := Nudges(10)
	sent[3].Matter, sent[4].TraceParent = [16]byte{}, ""
	t.Run("over the bus", func(t *testing.T) { c.overTheBus(t, sent) })
	t.Run("straight to the queue", c.straight)
	t.Run("a handle that is none", c.badHandle)
	t.Run("letters die and are redriven", c.letters)
	t.Run("cut, watched and mended", c.cut)
	t.Run("taken down", c.takenDown)
}

type contract struct {
	*Rig

	ctx   context.Context
	queue *nudge.Queue
	lacks Lacks
}

func (c *contract) preflight(t *testing.T) {
	found, err := c.Bridge(c.ctx, t).Preflight(c.ctx)
	if err != nil {
		t.Fatalf("preflight: %v", err)
	}
	for _, f := range found {
		if f.State == nudge.Fail {
			t.Errorf("preflight of a sound rig: %+v", f)
		}
	}
	if !slices.ContainsFunc(found, func(f nudge.Finding) bool { return f.Check == nudge.CheckTarget && f.State == nudge.OK }) {
		t.Errorf("preflight did not find the target: %+v", found)
	}
}

// overTheBus publishes ten and finds the very same ten in the queue.
func (c *contract) overTheBus(t *testing.T, sent []nudge.Nudge) {
	c.publish(t, c.Bridge(c.ctx, t), sent)
	got := c.collect(t, len(sent))
	if diff := cmp.Diff(byID(sent), byID(decoded(t, got))); diff != "" {
		t.Errorf("nudges on the way (-sent +received):\n%s", diff)
	}
	for _, m := range got {
		if m.ReceiveCount != 1 || m.ID == "" || time.Since(m.Sent).Abs() > time.Hour {
			t.Errorf("message %+v: want an id, one receive, sent just now", m)
		}
	}
	if d, err := c.queue.Depth(c.ctx); err != nil || d != (nudge.Depth{InFlight: 10}) {
		t.Errorf("depth with ten in hand: %+v, %v", d, err)
	}
	if failed, err := c.queue.Delete(c.ctx, got); failed != 0 || err != nil {
		t.Fatalf("delete: %d failed, %v", failed, err)
	}
	if d, err := c.queue.Depth(c.ctx); err != nil || d != (nudge.Depth{}) {
		t.Errorf("depth after the delete: %+v, %v", d, err)
	}
}

func (c *contract) straight(t *testing.T) {
	sent := Nudges(3)
	c.publish(t, c.Straight(c.ctx, t), sent)
	got := c.collect(t, 3)
	if diff := cmp.Diff(byID(sent), byID(decoded(t, got))); diff != "" {
		t.Errorf("nudges on the way (-sent +received):\n%s", diff)
	}
	if failed, err := c.queue.Delete(c.ctx, got); failed != 0 || err != nil {
		t.Fatalf("delete: %d failed, %v", failed, err)
	}
}

// badHandle is field report 15: a failed delete is counted and nothing else.
func (c *contract) badHandle(t *testing.T) {
	c.Send(c.ctx, t, "hello")
	got := c.collect(t, 1)
	bad := got[0]
	bad.Handle = "no-such-handle"
	if failed, err := c.queue.Delete(c.ctx, []nudge.Message{bad, got[0]}); failed != 1 || err != nil {
		t.Errorf("delete of a good and a bad handle: %d failed, %v, want 1 and no error", failed, err)
	}
}

// letters receives a body that is no nudge until the queue gives it up.
func (c *contract) letters(t *testing.T) {
	c.Send(c.ctx, t, "hello")
	for i := range c.Receives {
		got := c.collect(t, 1)
		if got[0].ReceiveCount != i+1 {
			t.Errorf("receive %d says %d", i+1, got[0].ReceiveCount)
		}
		if failed, err := c.queue.Release(c.ctx, got); failed != 0 || err != nil {
			t.Fatalf("release: %d failed, %v", failed, err)
		}
	}
	if got, err := c.queue.Receive(c.ctx, 10, 0); err != nil || len(got) != 0 {
		t.Fatalf("received %d times and still there: %v, %v", c.Receives, got, err)
	}
	dead, err := c.queue.DeadLetters(c.ctx)
	if err != nil {
		t.Fatalf("find the dead letters: %v", err)
	}
	letters, err := dead.List(c.ctx, 10)
	if err != nil || len(letters) != 1 || letters[0].Reason != nudge.NotJSON || string(letters[0].Body) != "hello" {
		t.Fatalf("letters: %+v, %v, want one that is not JSON", letters, err)
	}
	if failed, err := dead.Release(c.ctx, letters); failed != 0 || err != nil {
		t.Fatalf("release the letters: %d failed, %v", failed, err)
	}
	c.redrive(t, dead)
}

// redrive moves the one letter back to the queue.
func (c *contract) redrive(t *testing.T, dead *nudge.DeadLetters) {
	_, err := dead.Redrive(c.ctx, 0)
	if c.lacks.Redrive {
		if verdict, code := nudge.ClassOf(err); verdict != nudge.Paused {
			t.Errorf("redrive where there is none: %s (%s), %v", verdict, code, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("redrive: %v", err)
	}
	if got := c.collect(t, 1); string(got[0].Body) != "hello" {
		t.Errorf("redriven body %q", got[0].Body)
	}
	if moves, err := dead.Moves(c.ctx); err != nil || len(moves) != 1 {
		t.Errorf("moves: %+v, %v, want one", moves, err)
	}
}

// cut takes the queue from the bus: nudges are accepted, are seen on the bus and do
// not come.
func (c *contract) cut(t *testing.T) {
	if err := errors.Join(c.Watch(c.ctx), c.Cut(c.ctx)); err != nil {
		t.Fatal(err)
	}
	before, err := c.Waiting(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := Nudges(2)
	c.publish(t, c.Bridge(c.ctx, t), sent[:1])
	c.wantSeen(t, sent[0])
	if n, err := c.Waiting(c.ctx); err != nil || n != before {
		t.Errorf("%d messages in a queue that was cut off, %v, want %d as before", n, err, before)
	}
	if err := c.Mend(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.publish(t, c.Bridge(c.ctx, t), sent[1:])
	c.wantSeen(t, sent[1])
	got := c.collect(t, 1)
	if diff := cmp.Diff(sent[1:], decoded(t, got)); diff != "" {
		t.Errorf("nudges after the mend (-sent +received):\n%s", diff)
	}
	if failed, err := c.queue.Delete(c.ctx, got); failed != 0 || err != nil {
		t.Fatalf("delete: %d failed, %v", failed, err)
	}
}

// wantSeen waits for one event of the bus, which is the whole envelope.
func (c *contract) wantSeen(t *testing.T, want nudge.Nudge) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		events, err := c.Seen(c.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			continue
		}
		n, err := nudge.Decode(events[0])
		if len(events) != 1 || err != nil || n != want || !bytes.Contains(events[0], []byte(`"detail-type"`)) {
			t.Errorf("seen %q, %v, want one event of %+v", events, err, want)
		}
		return
	}
	t.Fatal("the bus carried nothing")
}

// takenDown leaves nothing of what was laid.
func (c *contract) takenDown(t *testing.T) {
	if err := c.TakeDown(c.ctx); err != nil {
		t.Fatal(err)
	}
	found, err := c.Bridge(c.ctx, t).Preflight(c.ctx)
	if err != nil {
		t.Fatalf("preflight: %v", err)
	}
	for _, f := range found {
		if f.State == nudge.OK {
			t.Errorf("taken down and still there: %+v", f)
		}
	}
}

// publisher is either sink.
type publisher interface {
	Publish(context.Context, []nudge.Nudge) ([]nudge.Result, error)
}

func (c *contract) publish(t *testing.T, sink publisher, nudges []nudge.Nudge) {
	t.Helper()
	results, err := sink.Publish(c.ctx, nudges)
	if err != nil || len(results) != len(nudges) {
		t.Fatalf("publish: %d results, %v", len(results), err)
	}
	for i, r := range results {
		if r.Verdict != nudge.Sent {
			t.Fatalf("nudge %d: %+v", i, r)
		}
	}
}

// collect receives until n messages are in hand.
func (c *contract) collect(t *testing.T, n int) (got []nudge.Message) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for len(got) < n && time.Now().Before(deadline) {
		more, err := c.queue.Receive(c.ctx, n-len(got), time.Second)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		got = append(got, more...)
	}
	if len(got) != n {
		t.Fatalf("received %d messages, want %d", len(got), n)
	}
	return got
}

func decoded(t *testing.T, messages []nudge.Message) []nudge.Nudge {
	t.Helper()
	out := make([]nudge.Nudge, len(messages))
	for i, m := range messages {
		n, err := nudge.Decode(m.Body)
		if err != nil {
			t.Fatalf("decode %q: %v", m.Body, err)
		}
		out[i] = n
	}
	return out
}

func byID(nudges []nudge.Nudge) []nudge.Nudge {
	return slices.SortedFunc(slices.Values(nudges), func(a, b nudge.Nudge) int {
		return strings.Compare(a.Event.String(), b.Event.String())
	})
}
