package nudgetest

import (
	"context"
	"testing"
	"time"

	"briefrail/internal/nudge"
)

// Smoke looks for the way a nudge takes and sends some until one comes out and is
// deleted, within two minutes. It asks for nothing that AWS does only in the end, such
// as exact counts, and bears with a rule that is not in force at once.
func Smoke(ctx context.Context, t *testing.T, endpoint string) {
	t.Helper()
	r := Build(ctx, t, endpoint, Shape{Receives: 5})
	bridge, queue := r.Bridge(ctx, t), r.Receiver(ctx, t)
	found, err := bridge.Preflight(ctx)
	if err != nil {
		t.Fatalf("preflight: %v", err)
	}
	for _, f := range found {
		if f.State != nudge.OK {
			t.Errorf("preflight: %+v", f)
		}
	}
	sent := make(map[nudge.Nudge]bool)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		n := Nudges(1)
		sent[n[0]] = true
		if results, err := bridge.Publish(ctx, n); err != nil || results[0].Verdict != nudge.Sent {
			t.Fatalf("publish: %+v, %v", results, err)
		}
		got, err := queue.Receive(ctx, nudge.MaxEntries, 5*time.Second)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		for _, m := range got {
			if n, err := nudge.Decode(m.Body); err != nil || !sent[n] {
				t.Fatalf("received %q: %v", m.Body, err)
			}
		}
		if failed, err := queue.Delete(ctx, got); failed != 0 || err != nil {
			t.Fatalf("delete: %d failed, %v", failed, err)
		}
		if len(got) > 0 {
			return
		}
	}
	t.Fatal("nothing came out of the queue")
}
