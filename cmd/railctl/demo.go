package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/brief"
	"briefrail/internal/rail"
)

const demoAbout = `Starts a PostgreSQL that is thrown away at the end, two workers and a build service,
and between them a relay with a bus and a queue, both fakes inside this program. It
shows with them what the rail promises:

  1  documents land together: as many facts, one job, one frame; and their nudges
  2  two people ask during one build: no second build beside it, one follow-up
  3  a worker hangs, loses its job to another, wakes up and writes: refused
  4  every nudge is lost: the outbox is swept, and the Brief is current all the same

With --source ledger there is no relay, no bus and no scene 4: PostgreSQL alone.
With --aws-endpoint the bus and the queues are made at an emulator of EventBridge and
SQS that already runs, such as kumo or railctl aws-fake, and removed at the end.

Everything it shows is read from the rows, the programs' own metrics and a queue that
gets all that the bus carries. It ends all it started. The exit code is 0 only when
everything held. It needs no configuration, touches no other database, and calls with
the keys of nobody: never anybody's AWS account.`

// demoOptions are the flags of the demo.
type demoOptions struct {
	docs     string // folder of the person's own documents; empty: the project's
	keep     bool
	plain    bool
	workers  int
	source   string // of the workers' facts
	endpoint string // URL of an emulator; empty: the fake inside
}

const (
	demoBus    = "bus"    // nudges over the fake bus and queue
	demoLedger = "ledger" // the outbox alone
)

// The pace of the demo: slow enough to watch, short enough to be done soon.
const (
	demoBuild    = 3 * time.Second // artificial length of a build
	demoLease    = 4 * time.Second
	demoSettle   = 1500 * time.Millisecond
	demoPause    = 1500 * time.Millisecond // for the reader, between scenes on a terminal
	demoPatience = 60 * time.Second        // for anything that should have happened by then
	maxWorkers   = 9
)

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the rail at work on a PostgreSQL of its own", Long: demoAbout, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.docs, "docs", "", "`folder` of your own PDF and text files to use as the documents")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "stay up afterwards, to look around, until Ctrl-C")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "print changes as lines, as into a pipe; no colour")
	cmd.Flags().IntVar(&o.workers, "workers", 2, "workers to start, 2 to 9")
	cmd.Flags().StringVar(&o.source, "source", demoBus, "where workers hear of facts: `bus`, with relay and queue, or ledger, PostgreSQL alone")
	cmd.Flags().StringVar(&o.endpoint, "aws-endpoint", "", "`URL` of an emulator of EventBridge and SQS to use instead of the fake inside")
	return cmd
}

// demo is one performance: the stage, what is shown, and the story's state.
type demo struct {
	*app
	opts   demoOptions
	screen *screen
	stage  *stage
	key    rail.Key
	docs   []brief.Document
	pages  map[rail.UUID][]string // of each stored document, to check quotes against
	seen   ticket
	names  map[rail.UUID]string // worker of each run
	told   bool                 // the story is over: an interrupt spoils nothing any more
	left   error                // of ending what was started
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	if o.workers < 2 || o.workers > maxWorkers {
		return fail(exitUsage, "--workers %d: the story needs 2 to %d", o.workers, maxWorkers)
	}
	if o.source != demoBus && o.source != demoLedger {
		return fail(exitUsage, "--source %q: it is %s or %s", o.source, demoBus, demoLedger)
	}
	if err := checkEndpoint(o); err != nil {
		return err
	}
	d := &demo{
		app: a, opts: o, screen: a.newScreen(o.plain), key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()},
		pages: map[rail.UUID][]string{}, names: map[rail.UUID]string{},
	}
	return d.play(ctx, d.perform)
}

// play has a performance end in order, whatever ends it. A terminal that is closed and a
// pipe that breaks do so as Ctrl-C does.
func (d *demo) play(ctx context.Context, perform func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := perform(ctx)
	if d.stage == nil {
		d.screen.clear() // what was going on when it failed
	}
	if ctx.Err() != nil && !d.told && d.left == nil {
		d.screen.settle()
		return errors.New("interrupted; everything that was started has been ended")
	}
	return err
}

func (d *demo) perform(ctx context.Context) (err error) {
	begun := time.Now()
	programs, err := findPrograms(d.opts.source)
	if err != nil {
		return err
	}
	d.screen.title("The rail on a PostgreSQL of its own")
	if d.docs, err = d.readDocuments(ctx); err != nil {
		return err
	}
	if d.stage, err = raise(ctx, programs, d.opts, d.screen); err != nil {
		return err
	}
	defer func() {
		d.left = d.stage.strike()
		err = errors.Join(err, d.left)
	}()
	if err := d.scenes(ctx); err != nil {
		d.screen.breakOff()
		return d.stage.withLogs(ctx, err)
	}
	held := d.verdict(time.Since(begun))
	d.told = true
	if d.opts.keep {
		d.lookAround(ctx)
	}
	return held
}

func (d *demo) scenes(ctx context.Context) error {
	scenes := []func(context.Context) error{d.together, d.twoPeople, d.zombie}
	if d.stage.bus != nil {
		scenes = append(scenes, d.lostNudges)
	}
	for _, scene := range append(scenes, d.sum) {
		if err := scene(ctx); err != nil {
			return err
		}
		if err := d.screen.pause(ctx, demoPause); err != nil {
			return err
		}
	}
	return nil
}

// parts is how many numbered scenes there are.
func (d *demo) parts() int {
	if d.stage.bus != nil {
		return 4
	}
	return 3
}

// verdict tells the end of it, and is an error unless everything held.
func (d *demo) verdict(took time.Duration) error {
	s := d.screen
	if s.failed == 0 {
		s.line("%s", s.paint(styleGood, fmt.Sprintf("All %d checks held. It took %d seconds.", s.checked, int(took.Seconds()+0.5))))
		s.line("")
		return nil
	}
	s.line("%s", s.paint(styleBad, fmt.Sprintf("%d of %d checks did not hold.", s.failed, s.checked)))
	s.line("")
	return fail(exitError, "%d of %d checks did not hold", s.failed, s.checked)
}

// lookAround leaves everything up until the person ends it.
func (d *demo) lookAround(ctx context.Context) {
	s := d.screen
	s.title("It is still up. Look around:")
	s.line("  psql '%s'", d.stage.dsn)
	s.line("  RAIL_DATABASE_URL='%s' \\", d.stage.dsn)
	s.line("    %s explain %s", d.stage.programs["railctl"], d.key)
	for _, w := range d.stage.workers {
		s.line("  curl http://%s/metrics    (worker %s)", w.listen, w.name)
	}
	if d.stage.bus != nil {
		s.line("  curl http://%s/metrics    (relay)", d.stage.relay.listen)
	}
	if b := d.stage.bus; b != nil && b.fake != nil {
		s.line("  curl %s/_fake/stats", b.url)
	}
	s.line("  less %s/*.log", d.stage.dir)
	s.line("")
	s.line("  Ctrl-C ends all of it and removes %s.", d.stage.dir)
	<-ctx.Done()
}
