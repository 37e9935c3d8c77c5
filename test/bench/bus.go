package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
)

// serveFake is the process of the fake bus: it prints its URL and that of the
// queue, and serves until its input ends, as it does when the parent is gone.
func serveFake(in io.Reader, out io.Writer) error {
	fake := awsfake.New(awsfake.Options{})
	url, closeFake, err := fake.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer closeFake()
	places := fake.Provision(url, awsfake.Layout{})
	fmt.Fprintln(out, url, places.Queue, places.Bus)
	_, err = io.Copy(io.Discard, in)
	return err
}

// bus is a bus with a rule and a queue, served by another process over loopback.
type bus struct {
	url, queue, name string
	cmd              *exec.Cmd
	end              io.Closer
}

// region is where the fake says that it is.
const region = "us-east-1"

// startBus starts the process. The client finds keys that nobody checks, and
// nothing of what is configured on this machine.
func startBus(ctx context.Context) (*bus, error) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bus{cmd: exec.CommandContext(ctx, self, "-"+serveFakeFlag)}
	b.cmd.Stderr = os.Stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.end = in
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Fscan(strings.NewReader(said), &b.url, &b.queue, &b.name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the fake bus said %q: %w", said, err), b.close())
	}
	return b, nil
}

func (b *bus) close() error { return errors.Join(b.end.Close(), b.cmd.Wait()) }

func (b *bus) sink(ctx context.Context) (*nudge.EventBridge, error) {
	return nudge.NewEventBridge(ctx, nudge.EventBridgeOptions{Bus: b.name, Region: region, Endpoint: b.url})
}

// relayedToBus empties the backlog over a bus of its own.
func (b *bench) relayedToBus(ctx context.Context) (err error) {
	fake, err := startBus(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fake.close()) }()
	sink, err := fake.sink(ctx)
	if err != nil {
		return err
	}
	return b.relayed(ctx, sink)
}

// busLatency is latency with relay, bus and queue between the outbox and the
// trigger, which would take a fact from the outbox itself only after its grace.
func (b *bench) busLatency(ctx context.Context) (err error) {
	fake, err := startBus(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fake.close()) }()
	waits, err := b.waits(ctx, func(ctx context.Context, w worker) error { return b.workOverBus(ctx, fake, w) })
	if err != nil {
		return err
	}
	b.addWaits(fmt.Sprintf("fact committed to claim over relay, bus and queue at %d facts/s, settle 0", factsPerSecond), waits)
	return nil
}

func (b *bench) workOverBus(ctx context.Context, fake *bus, w worker) error {
	sink, err := fake.sink(ctx)
	if err != nil {
		return err
	}
	w.source, err = nudge.NewQueue(ctx, nudge.QueueOptions{Queue: fake.queue, Region: region, Endpoint: fake.url})
	if err != nil {
		return err
	}
	pool, err := b.pool(ctx, small, b.plan.clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	return beside(ctx, newRelay(pool, sink).Run, w.run)
}
