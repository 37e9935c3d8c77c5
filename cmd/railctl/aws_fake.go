package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/nudge/awsfake"
)

const awsFakeHelp = `Stands in for EventBridge and SQS until it is stopped: a bus, a rule, a queue and both
dead-letter queues, in memory, for trying producers and consumers of your own. Nothing
is signed or checked for permission, and all is gone afterwards.

It prints the environment that points programs at it, one NAME=VALUE a line:

  railctl aws-fake --listen 127.0.0.1:4577 > aws.env &
  set -a; . ./aws.env; set +a
  outbox-relay run

Listening everywhere (--listen 0.0.0.0:4577) it prints 127.0.0.1; clients on other
machines or in other containers need the name by which they reach it: --host fake.

What goes wrong is chosen with flags (shares from 0 to 1), or while it runs:

  curl -d '{"drop":0.3}' http://127.0.0.1:4577/_fake/chaos
  curl -d '{"op":"PutEvents","fault":"throttle"}' http://127.0.0.1:4577/_fake/fault
  curl -X POST http://127.0.0.1:4577/_fake/clear
  curl http://127.0.0.1:4577/_fake/stats`

// awsFakeOptions are the flags of aws-fake.
type awsFakeOptions struct {
	listen string
	host   string // in what is printed; empty for that of listen
	seed   uint64
	layout awsfake.Layout
	chaos  awsfake.Chaos
}

func (a *app) awsFakeVerb() *cobra.Command {
	var o awsFakeOptions
	cmd := &cobra.Command{
		Use: "aws-fake", Short: "Stand in for EventBridge and SQS, for trying things", Long: awsFakeHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.awsFake(cmd.Context(), o) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:4577", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.host, "host", "", "`name` under which clients reach it, in what is printed; empty for the address it listens on")
	fs.StringVar(&o.layout.Bus, "bus", "brief", "`name` of the bus")
	fs.StringVar(&o.layout.Queue, "queue", "brief", "`name` of the queue; its dead letters are NAME-dead and NAME-undelivered")
	fs.StringVar(&o.layout.Source, "source", "brief.ops", "`source` of the events that the rule takes")
	fs.DurationVar(&o.layout.Visibility, "visibility", 30*time.Second, "how long a message in hand stays invisible")
	fs.IntVar(&o.layout.Receives, "max-receives", 5, "receives before a message is a dead letter")
	fs.BoolVar(&o.layout.FullEvent, "full-event", false, "hand the whole event to the queue instead of its detail")
	fs.Float64Var(&o.chaos.Drop, "drop", 0, "`share` of messages that are lost")
	fs.Float64Var(&o.chaos.Duplicate, "duplicate", 0, "`share` of messages that are delivered twice")
	fs.Float64Var(&o.chaos.Reorder, "reorder", 0, "`share` of messages that are held back")
	fs.Float64Var(&o.chaos.Forge, "forge", 0, "`share` of messages that come with a counterfeit")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of what happens by chance")
	return cmd
}

// awsFake serves until the context ends, as it does with a signal. The environment goes out once it answers, so that a
// script may wait for the first line.
func (a *app) awsFake(ctx context.Context, o awsFakeOptions) error {
	for _, share := range []float64{o.chaos.Drop, o.chaos.Duplicate, o.chaos.Reorder, o.chaos.Forge} {
		if share < 0 || share > 1 {
			return fail(exitUsage, "a share is from 0 to 1, not %v", share)
		}
	}
	fake := awsfake.New(awsfake.Options{Seed: o.seed})
	url, closeFake, err := fake.Listen(o.listen)
	if err != nil {
		return err
	}
	defer closeFake()
	url = fakeURL(url, o.host)
	places := fake.Provision(url, o.layout)
	fake.SetChaos(o.chaos)
	for _, pair := range fakeEnvironment(url, places) {
		fmt.Fprintln(a.stdout, pair)
	}
	<-ctx.Done()
	return nil
}

// fakeURL is where clients reach the fake: at the host that was named, or as it says.
func fakeURL(url, host string) string {
	if host == "" {
		return url
	}
	return "http://" + net.JoinHostPort(host, url[strings.LastIndex(url, ":")+1:])
}

// fakeEnvironment points the SDK and the rail's programs at the fake.
func fakeEnvironment(url string, p awsfake.Places) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
		"AWS_EC2_METADATA_DISABLED=true",
		"RAIL_RELAY_SINKS=[eventbridge]", "RAIL_RELAY_EVENT_BUS=" + p.Bus, "RAIL_RELAY_QUEUE_URL=" + p.Queue,
		"RAIL_TRIGGER_SOURCE=sqs", "RAIL_TRIGGER_QUEUE_URL=" + p.Queue,
	}
}
