package main

import (
	"os"
	"testing"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

// The SDK reads the environment of the process, and must find nobody's account there.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// way is a fake AWS with a bus and a queue, which the rig's railctl is told of.
type way struct {
	*awsfake.Server
	r      *rig
	url    string
	places awsfake.Places
}

func newWay(r *rig, l awsfake.Layout) *way {
	r.t.Helper()
	w := &way{Server: awsfake.New(awsfake.Options{}), r: r}
	url, end, err := w.Listen("127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(end)
	w.url, w.places = url, w.Provision(url, l)
	r.env = append(r.env, "RAIL_AWS_ENDPOINT="+url, "RAIL_TRIGGER_QUEUE_URL="+w.places.Queue)
	return w
}

// bury sends bodies to the queue and has each received as often as makes it a dead
// letter. The layout must say one receive.
func (w *way) bury(bodies ...string) {
	w.r.t.Helper()
	w.send(bodies...)
	q, err := nudge.NewQueue(w.r.t.Context(), nudge.QueueOptions{Queue: w.places.Queue, Endpoint: w.url})
	if err != nil {
		w.r.t.Fatal(err)
	}
	for range 2 {
		if _, err := q.Receive(w.r.t.Context(), 10, 0); err != nil {
			w.r.t.Fatal(err)
		}
		w.Advance(time.Minute)
	}
	if _, err := q.Receive(w.r.t.Context(), 10, 0); err != nil {
		w.r.t.Fatal(err)
	}
	if n, _, _ := w.Depth("brief-dead"); n != len(bodies) {
		w.r.t.Fatalf("%d dead letters, want %d", n, len(bodies))
	}
}

func unknownNudge() string {
	return string(nudge.Nudge{Event: rail.NewUUID(), Firm: rail.NewUUID(), Matter: rail.NewUUID(), Name: "document.uploaded"}.Encode())
}
