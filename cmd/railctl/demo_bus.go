package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/provision"
	"briefrail/internal/rail"
)

const (
	// demoGrace is how long a nudge may take before the sweep of the outbox takes its
	// fact: long enough to see who brought it, short enough to wait for.
	demoGrace = 3 * time.Second
	// demoVisibility is short so that a nudge in the hands of a frozen worker is soon
	// back.
	demoVisibility = 5 * time.Second
)

// demoWay is the way of the nudges: a bus and a queue with its dead letters, and a
// second queue that shows what the bus carries. All of it is laid over the SDK,
// whether the endpoint is a fake inside this process or somebody's.
type demoWay struct {
	*provision.Way

	url    string
	fake   func() // ends the fake; nil where the endpoint was there before
	seen   map[rail.UUID]bool
	newest []byte // event that was seen
}

// checkEndpoint refuses an endpoint that no request can go to.
func checkEndpoint(o demoOptions) error {
	if o.endpoint == "" {
		return nil
	}
	if o.source != demoBus {
		return fail(exitUsage, "--aws-endpoint needs --source %s: with %s nothing goes over it", demoBus, o.source)
	}
	u, err := url.Parse(o.endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fail(exitUsage, "--aws-endpoint %q: it is a URL like http://127.0.0.1:4566, of something that speaks EventBridge and SQS", o.endpoint)
	}
	return nil
}

// startBus lays the way and starts the relay that publishes to it.
func (st *stage) startBus(ctx context.Context, endpoint string, s *screen) (err error) {
	s.status("starting the bus and the relay")
	b := &demoWay{url: strings.TrimSuffix(endpoint, "/"), seen: map[rail.UUID]bool{}}
	if endpoint == "" {
		if b.url, b.fake, err = awsfake.New(awsfake.Options{}).Listen("127.0.0.1:0"); err != nil {
			return fmt.Errorf("start the fake bus: %w", err)
		}
	}
	st.bus = b
	if err := b.lay(ctx); err != nil {
		return fmt.Errorf("make the bus and its queues at %s (does an emulator of EventBridge and SQS run there?): %w", b.url, err)
	}
	if st.relay, err = st.start(ctx, "relay", "outbox-relay", []string{"run"}, st.relayEnv()...); err != nil {
		return err
	}
	where := "a fake of EventBridge and SQS inside this program, " + strings.TrimPrefix(b.url, "http://") + ": bus, rule, queue and both dead-letter queues"
	if b.fake == nil {
		where = fmt.Sprintf("EventBridge and SQS at %s: bus, rule, queue and both dead-letter queues, named %s and removed at the end", b.url, b.Bus)
	}
	s.fact("bus", "%s", where)
	return nil
}

func (b *demoWay) lay(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience/2)
	defer cancel()
	b.Way, err = provision.Lay(ctx, provision.Options{
		Endpoint: b.url, Name: "briefrail-demo-" + rail.NewUUID().String()[:13], Visibility: demoVisibility,
	})
	if err != nil {
		return err
	}
	return b.Watch(ctx)
}

// end removes the way and, where it is ours, the fake.
func (b *demoWay) end(ctx context.Context) (err error) {
	if b.Way != nil {
		err = b.TakeDown(ctx)
	}
	if b.fake != nil {
		b.fake()
	}
	return err
}

// look takes in what the bus has carried meanwhile. Twice the same is once.
func (b *demoWay) look(ctx context.Context) error {
	events, err := b.Seen(ctx)
	var strange []error
	for _, e := range events {
		n, err := nudge.Decode(e)
		if err != nil {
			strange = append(strange, fmt.Errorf("the bus carried %q: %w", e, err))
			continue
		}
		b.seen[n.Event], b.newest = true, e
	}
	return errors.Join(append(strange, err)...)
}

// awsEnv points the SDK at the endpoint, with credentials of nobody; the person's own
// files stay closed.
func (b *demoWay) awsEnv() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + b.url, "AWS_REGION=" + provision.Region, "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// relayEnv is the configuration of the relay: the defaults, but faster.
func (st *stage) relayEnv() []string {
	return append(st.bus.awsEnv(),
		"RAIL_DATABASE_URL="+st.dsn, "RAIL_ADMIN_LISTEN=127.0.0.1:0", "RAIL_LOG_FORMAT=json", "RAIL_RELAY_SINKS=[eventbridge]",
		"RAIL_RELAY_EVENT_BUS="+st.bus.Bus, "RAIL_RELAY_MAX_IDLE=100ms", "RAIL_RELAY_LEASE=2s")
}

// workerEnv is what a worker needs to hear nudges.
func (b *demoWay) workerEnv() []string {
	return append(b.awsEnv(), "RAIL_TRIGGER_SOURCE=sqs", "RAIL_TRIGGER_QUEUE_URL="+b.Queue,
		"RAIL_TRIGGER_GRACE="+demoGrace.String(), "RAIL_TRIGGER_POLL_WAIT=1s")
}
