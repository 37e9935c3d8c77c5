package nudge_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/nudgetest"
)

// receiver is a stage's queue with its counters.
func (s *stage) receiver(t *testing.T) *nudge.Queue {
	t.Helper()
	return s.Receiver(t.Context(), t, func(o *nudge.QueueOptions) { o.Registerer, o.Timeout = s.reg, s.timeout })
}

// receive takes n messages that are there already.
func receive(t *testing.T, q *nudge.Queue, n int) []nudge.Message {
	t.Helper()
	got, err := q.Receive(t.Context(), 10, 0)
	if err != nil || len(got) != n {
		t.Fatalf("received %d, %v; want %d", len(got), err, n)
	}
	return got
}

// Field report 14: one bad message in ten; the nine others are whole and can be
// settled, the bad one dies after its receives and is listed with its reason.
func TestOneBadMessageInTen(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		s := newStage(t, nudgetest.Shape{FullEvent: full, Receives: 2})
		q := s.receiver(t)
		if _, err := s.Bridge(t.Context(), t).Publish(t.Context(), nudgetest.Nudges(9)); err != nil {
			t.Fatal(err)
		}
		s.Send(t.Context(), t, `"{\"v\":1}"`)
		var good, bad []nudge.Message
		for _, m := range receive(t, q, 10) {
			if _, err := nudge.Decode(m.Body); err != nil {
				bad = append(bad, m)
			} else {
				good = append(good, m)
			}
		}
		if failed, err := q.Delete(t.Context(), good); failed != 0 || err != nil || len(good) != 9 {
			t.Fatalf("%d good, %d not deleted, %v", len(good), failed, err)
		}
		for range 2 { // released at once, it is a dead letter soon
			if failed, err := q.Release(t.Context(), bad); failed != 0 || err != nil {
				t.Fatalf("release: %d, %v", failed, err)
			}
			if bad, _ = q.Receive(t.Context(), 10, 0); len(bad) == 0 {
				break
			}
		}
		dead, err := q.DeadLetters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		letters, err := dead.List(t.Context(), 100)
		if err != nil || len(letters) != 1 || letters[0].Reason != nudge.NotObject {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
	}
}

// Field report 15: a handle that expired or is none makes a failed delete a counted
// no-op; the others of the batch are gone, and the message comes back.
func TestFailedDeletesAreCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{Visibility: 5 * time.Second})
	q := s.receiver(t)
	if _, err := s.Straight(t.Context(), t).Publish(t.Context(), nudgetest.Nudges(3)); err != nil {
		t.Fatal(err)
	}
	first := receive(t, q, 3)
	s.fake.Advance(6 * time.Second)
	second := receive(t, q, 3)
	if second[0].ReceiveCount != 2 || second[0].ID != first[0].ID || second[0].Handle == first[0].Handle {
		t.Errorf("second receive %+v of %+v", second[0], first[0])
	}
	// The handles of the first receive are stale: AWS answers success and deletes nothing.
	if failed, err := q.Delete(t.Context(), first); failed != 0 || err != nil || s.arrived() != 3 {
		t.Errorf("stale handles: %d failed, %v, %d left", failed, err, s.arrived())
	}
	s.fake.Script("DeleteMessageBatch", awsfake.InvalidReceiptHandle(1).And(awsfake.OmitEntry(2)))
	if failed, err := q.Delete(t.Context(), second); failed != 2 || err != nil {
		t.Errorf("an invalid handle and one without an answer: %d failed, %v; want 2", failed, err)
	}
	if s.count(t, "delete_message_batch", "partial") != 1 {
		t.Error("the failed delete is not counted")
	}
	s.fake.Advance(6 * time.Second)
	again := receive(t, q, 1) // the one whose delete failed; the loop goes on with it
	if failed, err := q.Delete(t.Context(), again); failed != 0 || err != nil || s.arrived() != 0 {
		t.Errorf("delete of what came back: %d, %v, %d left", failed, err, s.arrived())
	}
}

// More than ten are settled in several calls, and one that fails as a whole does not
// keep the others.
func TestDeleteInTens(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	q, sink := s.receiver(t), s.Straight(t.Context(), t)
	var held []nudge.Message
	for range 3 {
		if _, err := sink.Publish(t.Context(), nudgetest.Nudges(8)); err != nil {
			t.Fatal(err)
		}
		held = append(held, receive(t, q, 8)...)
	}
	s.fake.Script("DeleteMessageBatch", awsfake.OK(), awsfake.Denied())
	failed, err := q.Delete(t.Context(), held)
	if verdict, _ := nudge.ClassOf(err); failed != 10 || verdict != nudge.Paused {
		t.Errorf("%d failed, %v", failed, err)
	}
	if s.arrived() != 10 {
		t.Errorf("%d are left, want the ten of the refused call", s.arrived())
	}
	if failed, err := q.Delete(t.Context(), nil); failed != 0 || err != nil {
		t.Errorf("delete of none: %d, %v", failed, err)
	}
	if failed, err := q.Release(t.Context(), held[10:20]); failed != 0 || err != nil {
		t.Errorf("release: %d, %v", failed, err)
	}
	if got := receive(t, q, 10); got[0].ReceiveCount != 2 {
		t.Errorf("released message %+v", got[0])
	}
}

// A settle call that met a hiccup is made again by the SDK, a receive is not.
func TestRetriesOfSettlingOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	q := s.receiver(t)
	s.Send(t.Context(), t, "x")
	s.fake.Script("ReceiveMessage", awsfake.Refuse(http.StatusServiceUnavailable, "ServiceUnavailable"))
	if _, err := q.Receive(t.Context(), 10, 0); err == nil || s.fake.Calls("ReceiveMessage") != 1 {
		t.Errorf("receive: %v after %d calls", err, s.fake.Calls("ReceiveMessage"))
	}
	s.fake.Script("DeleteMessageBatch", awsfake.AcceptThenReset())
	if failed, err := q.Delete(t.Context(), receive(t, q, 1)); failed != 0 || err != nil || s.arrived() != 0 {
		t.Errorf("delete: %d, %v", failed, err)
	}
}

// A long poll waits, is woken by what arrives, and ends with its context or its own
// deadline.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	q := s.receiver(t)
	start := time.Now()
	if got, err := q.Receive(t.Context(), 10, time.Second); err != nil || len(got) != 0 || time.Since(start) < 900*time.Millisecond {
		t.Errorf("an empty queue: %v, %v after %s", got, err, time.Since(start))
	}
	woken := make(chan int, 1)
	go func() {
		got, _ := q.Receive(t.Context(), 10, 20*time.Second) // an error shows as none received
		woken <- len(got)
	}()
	s.Send(t.Context(), t, "x")
	if n := <-woken; n != 1 {
		t.Errorf("woken with %d messages", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := q.Receive(ctx, 10, 20*time.Second)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.timeout = time.Second
	q = s.receiver(t)
	s.fake.Script("ReceiveMessage", awsfake.Hang())
	start = time.Now()
	_, err := q.Receive(t.Context(), 10, time.Second)
	if _, code := nudge.ClassOf(err); code != "timeout" || time.Since(start) > 20*time.Second {
		t.Errorf("a poll that hangs ends with %v after %s", err, time.Since(start))
	}
}

func TestReceiveFaults(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	q := s.receiver(t)
	s.fake.Always("ReceiveMessage", 1, awsfake.ExpiredCredentials())
	_, err := q.Receive(t.Context(), 10, 0)
	if verdict, code := nudge.ClassOf(err); verdict != nudge.Paused || code != "ExpiredTokenException" {
		t.Errorf("%s %s, %v", verdict, code, err)
	}
	s.fake.Clear()
	gone := s.Receiver(t.Context(), t, func(o *nudge.QueueOptions) { o.Queue += "-gone" })
	_, err = gone.Receive(t.Context(), 10, 0)
	if verdict, code := nudge.ClassOf(err); verdict != nudge.Paused || code != "QueueDoesNotExist" {
		t.Errorf("%s %s, %v", verdict, code, err)
	}
	if _, err := gone.Depth(t.Context()); err == nil {
		t.Error("the depth of a queue that is not there is no error")
	}
	if _, err := gone.DeadLetters(t.Context()); err == nil || errors.Is(err, nudge.ErrNoDeadLetters) {
		t.Errorf("dead letters of a queue that is not there: %v", err)
	}
	s.SetQueue(t.Context(), t, "RedrivePolicy", "")
	if _, err := q.DeadLetters(t.Context()); !errors.Is(err, nudge.ErrNoDeadLetters) {
		t.Errorf("dead letters of a queue without: %v", err)
	}
}

func TestMakingNeedsAQueue(t *testing.T) {
	t.Parallel()
	if _, err := nudge.NewQueue(t.Context(), nudge.QueueOptions{}); err == nil {
		t.Error("a receiver without a queue")
	}
	if _, err := nudge.NewSQS(t.Context(), nudge.SQSOptions{}); err == nil {
		t.Error("a sink without a queue")
	}
	if _, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Source: string(make([]byte, 257))}); err == nil {
		t.Error("a source of 257 bytes")
	}
}

// Dead letters are looked at without harm and moved back at a person's word.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{Receives: 1})
	q := s.receiver(t)
	sent := nudgetest.Nudges(10)
	for range 3 {
		if _, err := s.Straight(t.Context(), t).Publish(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Release(t.Context(), receive(t, q, 10)); err != nil {
			t.Fatal(err)
		}
		receive(t, q, 0) // the look that finds them received too often
	}
	dead, err := q.DeadLetters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	letters, err := dead.List(t.Context(), 25)
	if err != nil || len(letters) != 25 {
		t.Fatalf("%d letters, %v", len(letters), err)
	}
	if diff := cmp.Diff(sent[0], letters[0].Nudge); diff != "" || letters[0].Reason != "" {
		t.Errorf("first letter (-want +got):\n%s", diff)
	}
	if d, err := dead.Depth(t.Context()); err != nil || d != (nudge.Depth{Visible: 5, InFlight: 25}) {
		t.Errorf("depth %+v, %v", d, err)
	}
	if failed, err := dead.Release(t.Context(), letters); failed != 0 || err != nil {
		t.Errorf("release: %d, %v", failed, err)
	}
	if _, err := dead.Redrive(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	moves, err := dead.Moves(t.Context())
	if err != nil || len(moves) != 1 || moves[0].Status != "COMPLETED" || moves[0].Moved != 30 || time.Since(moves[0].Started).Abs() > time.Hour {
		t.Errorf("moves %+v, %v", moves, err)
	}
	if d, err := q.Depth(t.Context()); err != nil || d.Visible != 30 {
		t.Errorf("depth after the redrive %+v, %v", d, err)
	}
	if letters, err := dead.List(t.Context(), 10); err != nil || len(letters) != 0 {
		t.Errorf("letters after the redrive: %v, %v", letters, err)
	}
}
