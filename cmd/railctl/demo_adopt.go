package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

const adoptAbout = `Starts a PostgreSQL that is thrown away at the end, and on it a firm that has a worker
of its own: a table with a boolean, and a loop (examples/legacy). The rail runs beside
it. While people and documents keep coming, authority moves bucket by bucket:

  1  the old worker decides everywhere, and its Briefs are brought to the rail
  2  six buckets cross, each planned, compared, and verified on both sides
  3  one crosses back, and the old worker goes on with it
  4  the rest crosses, the old worker is retired, and its last script is refused

Everything it shows is read from the rows. It ends all it started. The exit code is 0
only when everything held. It needs no configuration and touches no other database.`

// adopting is one performance. It shares the stage and the screen of the other demo.
type adopting struct {
	*demo
	legacy *process
	bridge *process
	people *crowd
	rest   map[string]bool // scopes that have not crossed
	moved  []crossed
	admin  []string // environment of railctl
}

// crossed is a bucket that went over, as it was measured.
type crossed struct {
	change  authority.Change
	report  authority.Report
	over    time.Time // when it was known to be: its commit is not seen at the instant that its row tells
	during  int       // intents that other buckets accepted within the pause
	matters int
}

func (a *app) adoptCommand() *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use: "demo-adopt", Short: "Show how a firm with a worker of its own adopts the rail, bucket by bucket", Long: adoptAbout, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demoAdopt(cmd.Context(), plain) },
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "no colour, as into a pipe")
	return cmd
}

func (a *app) demoAdopt(ctx context.Context, plain bool) error {
	d := &adopting{demo: &demo{app: a, opts: demoOptions{plain: plain, source: demoLedger}, screen: a.newScreen(plain)}, rest: map[string]bool{}}
	return d.play(ctx, d.perform)
}

func (d *adopting) perform(ctx context.Context) (err error) {
	begun := time.Now()
	programs, err := findAdoptPrograms()
	if err != nil {
		return err
	}
	d.screen.title("A firm adopts the rail, on a PostgreSQL of its own")
	d.stage = &stage{programs: programs}
	defer func() {
		d.people.stop()
		d.left = d.stage.strike()
		err = errors.Join(err, d.left)
	}()
	if err := d.raise(ctx); err != nil {
		d.screen.clear()
		return d.stage.withLogs(ctx, err)
	}
	for _, scene := range []func(context.Context) error{d.asItIs, d.sixCross, d.oneGoesBack, d.retirement, d.total} {
		if err := scene(ctx); err != nil {
			d.screen.breakOff()
			return d.stage.withLogs(ctx, errors.Join(err, d.people.failed()))
		}
		if err := d.screen.pause(ctx, demoPause); err != nil {
			return err
		}
	}
	held := d.verdict(time.Since(begun))
	d.told = true
	return held
}

// ctl runs a verb of railctl as a person would, on the demo's database, and tells it.
func (d *adopting) ctl(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	if code := run(ctx, args, d.admin, strings.NewReader(""), &out, &errs); code != exitOK {
		return out.String(), fmt.Errorf("railctl %s: exit %d: %s", strings.Join(args, " "), code, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

const adoptReason = "--reason=adopting the rail"

// govern runs a verb of authority and shows its command line.
func (d *adopting) govern(ctx context.Context, args ...string) error {
	d.screen.act("railctl authority %s", strings.Join(abridged(args), " "))
	_, err := d.ctl(ctx, append(append([]string{"authority"}, args...), "--yes", adoptReason)...)
	return err
}

// abridged leaves all but the first of many scopes out.
func abridged(args []string) []string {
	for i := range args {
		if more := len(args) - i - 1; more > 1 && strings.HasPrefix(args[i], "matters/") {
			return append(slices.Clone(args[:i+1]), fmt.Sprintf("… (%d more)", more))
		}
	}
	return args
}

// move plans, compares and crosses one scope. What it goes through is what a person
// would type.
func (d *adopting) move(ctx context.Context, scope string) (crossed, error) {
	change := rail.NewUUID()
	_, err := d.ctl(ctx, "authority", "plan", scope, "--change", change.String(), "--deadline", "10s", "--budget", "10s", adoptReason)
	if err != nil {
		return crossed{}, err
	}
	_, err = d.ctl(ctx, "authority", "shadow", change.String(), "--builder", "http://"+d.stage.builder.listen+"/v1/build",
		"--rules", d.stage.dir+"/rules.yaml", "--sources", "built_from", adoptReason)
	if err != nil {
		return crossed{}, err
	}
	return d.cross(ctx, change)
}

// cross closes, drains, seals, verifies and advances, with the bridge asked inside.
func (d *adopting) cross(ctx context.Context, change rail.UUID) (c crossed, err error) {
	if _, err := d.ctl(ctx, "authority", "cross", change.String(), "--old-side", "http://"+d.bridge.listen, "--yes", adoptReason); err != nil {
		shown, _ := d.ctl(context.WithoutCancel(ctx), "authority", "show", change.String())
		return c, fmt.Errorf("%w\n%s", err, shown)
	}
	c.over = time.Now()
	if c.change, err = authority.ChangeOf(ctx, d.stage.pool, change); err != nil {
		return c, err
	}
	reports, err := authority.Reports(ctx, d.stage.pool, change)
	if err == nil && len(reports) == 0 {
		err = fmt.Errorf("change %s has no report", change)
	}
	if err != nil {
		return c, err
	}
	c.report, c.matters = reports[0], d.people.mattersOf(c.change.Scope)
	c.during = d.people.acceptedElsewhere(c.change)
	d.moved = append(d.moved, c)
	delete(d.rest, c.change.Scope)
	return c, nil
}

// classes is what a change's shadow found, in words.
func classes(shadow json.RawMessage) string {
	var found []authority.ShadowClass
	if err := json.Unmarshal(shadow, &found); err != nil || len(found) == 0 {
		return "nothing to compare"
	}
	var parts []string
	for _, c := range found {
		words := map[string]string{authority.Same: "alike", authority.LegacyUnsupported: "explained", authority.Representation: "explained", authority.ProjectionLag: "record moved on"}[c.Difference]
		if words == "" {
			words = strings.ReplaceAll(c.Difference, "_", " ")
		}
		parts = append(parts, fmt.Sprintf("%d %s", c.Matters, words))
	}
	return strings.Join(parts, ", ")
}

// until waits for something that the rows will say, as long as the programs run.
func (d *adopting) until(ctx context.Context, what string, enough func(context.Context) (bool, error)) error {
	d.screen.status("%s", what)
	defer d.screen.clear()
	return d.poll(ctx, what, enough)
}
