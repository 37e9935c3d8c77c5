package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"briefrail/internal/nudge/awsfake"
)

const (
	// demoGrace is how long a nudge may take before the sweep of the outbox takes its
	// fact: long enough to see who brought it, short enough to wait for.
	demoGrace = 3 * time.Second
	// demoVisibility is short so that a nudge in the hands of a frozen worker is soon
	// back.
	demoVisibility = 5 * time.Second
	demoQueue      = "brief"
)

// demoWay is the way of the nudges: a bus and a queue with its dead letters, both
// inside this process.
type demoWay struct {
	*awsfake.Server

	url    string
	end    func()
	places awsfake.Places
}

// startBus starts the fake and the relay that publishes to it.
func (st *stage) startBus(ctx context.Context, s *screen) (err error) {
	s.status("starting the fake bus and the relay")
	b := &demoWay{Server: awsfake.New(awsfake.Options{})}
	if b.url, b.end, err = b.Listen("127.0.0.1:0"); err != nil {
		return fmt.Errorf("start the fake bus: %w", err)
	}
	st.bus = b
	b.places = b.Provision(b.url, awsfake.Layout{Bus: "brief", Queue: demoQueue, Visibility: demoVisibility})
	if st.relay, err = st.start(ctx, "relay", "outbox-relay", []string{"run"}, st.relayEnv()...); err != nil {
		return err
	}
	s.fact("bus", "a fake of EventBridge and SQS inside this program, %s: bus, rule, queue and both dead-letter queues", strings.TrimPrefix(b.url, "http://"))
	return nil
}

// awsEnv points the SDK at the fake, with credentials of nobody; the person's own
// files stay closed.
func (b *demoWay) awsEnv() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + b.url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// relayEnv is the configuration of the relay: the defaults, but faster.
func (st *stage) relayEnv() []string {
	return append(st.bus.awsEnv(),
		"RAIL_DATABASE_URL="+st.dsn, "RAIL_ADMIN_LISTEN=127.0.0.1:0", "RAIL_LOG_FORMAT=json", "RAIL_RELAY_SINKS=[eventbridge]",
		"RAIL_RELAY_EVENT_BUS="+st.bus.places.Bus, "RAIL_RELAY_MAX_IDLE=100ms", "RAIL_RELAY_LEASE=2s")
}

// workerEnv is what a worker needs to hear nudges.
func (b *demoWay) workerEnv() []string {
	return append(b.awsEnv(), "RAIL_TRIGGER_SOURCE=sqs", "RAIL_TRIGGER_QUEUE_URL="+b.places.Queue,
		"RAIL_TRIGGER_GRACE="+demoGrace.String(), "RAIL_TRIGGER_POLL_WAIT=1s")
}
