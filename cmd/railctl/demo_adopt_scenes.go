package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// asItIs is scene 1: the old worker decides, and nothing of the rail is in its way.
func (d *adopting) asItIs(ctx context.Context) error {
	s := d.screen
	s.title("1 of 4  The firm as it is: a boolean and a loop")
	s.tell("Whoever stores a document sets needs_rebuild and appends a fact, in one transaction. The old worker rebuilds what is set. " +
		"Now it becomes known to the rail as a writer, its tables come under the fence, and a bridge brings its Briefs over.")
	s.line("")
	if err := d.makeKnown(ctx); err != nil {
		return err
	}
	if err := d.startBridge(ctx); err != nil {
		return err
	}
	for _, k := range d.people.keys {
		if err := d.people.document(ctx, k); err != nil {
			return err
		}
	}
	d.people.endpoint = func() string { return "http://" + d.legacy.listen + "/v1/regenerate" }
	d.people.begin(ctx)
	s.act("%d people ask for Briefs, and documents keep coming, to the end", crowdPeople)
	err := d.until(ctx, "every matter to have a Brief on both sides", func(ctx context.Context) (bool, error) {
		n, err := d.imported(ctx)
		return n == len(d.people.keys), err
	})
	if err != nil {
		return err
	}
	return d.checkAsItIs(ctx)
}

// makeKnown says who writes what. A bucket in which the firm has no matter can be the
// rail's at once: nothing has to cross.
func (d *adopting) makeKnown(ctx context.Context) error {
	var empty []string
	for n := range rail.Buckets {
		if scope := bucketScope(n); !d.rest[scope] {
			empty = append(empty, scope)
		}
	}
	for _, args := range [][]string{
		{"writers", "register", "legacy", "--role", "legacy_worker", "--importer", "legacy_bridge", "--endpoint", "http://" + d.legacy.listen + "/v1/regenerate"},
		append([]string{"configure", "--writer", "legacy"}, d.people.scopes()...),
		append([]string{"configure", "--writer", "rail"}, empty...),
		{"guard", "legacy.briefs", "--key", "matter_id", "--sequence", "revision", "--writer", "legacy"},
		{"guard", "legacy.requests", "--key", "matter_id", "--writer", "legacy"},
	} {
		if err := d.govern(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// imported counts the matters whose current frame at the rail was brought there.
func (d *adopting) imported(ctx context.Context) (n int, err error) {
	for _, k := range d.people.keys {
		list, err := audit.Frames(ctx, d.stage.pool, k)
		if err != nil {
			return 0, err
		}
		if len(list) > 0 {
			n++
		}
	}
	return n, d.people.failed()
}

func (d *adopting) checkAsItIs(ctx context.Context) error {
	s := d.screen
	runs, err := audit.Runs(ctx, d.stage.pool, audit.RunFilter{Limit: historyLimit})
	if err != nil {
		return err
	}
	built, brought := 0, 0
	for _, r := range runs {
		if r.Builder == "import" {
			brought++
		} else {
			built++
		}
	}
	s.line("")
	s.check(built == 0, "the rail's worker has built nothing: %s came over from the old one", count(brought, "Brief"))
	st, err := audit.ReadStatus(ctx, d.stage.pool)
	if err != nil {
		return err
	}
	s.check(st.Jobs.Elsewhere > 0 && st.Jobs.Queued == 0, "%s keep their demand at the rail, as elsewhere, and nobody is paged for them", count(st.Jobs.Elsewhere, "matter"))
	return nil
}

// sixCross is scene 2.
func (d *adopting) sixCross(ctx context.Context) error {
	s := d.screen
	s.title("2 of 4  Six buckets cross, one after the other")
	s.tell("Each is planned, built in the shadow and compared, and then crosses: nobody new is let in, who is in finishes, " +
		"the end is read, both sides are compared whole, and the rail has authority under the next epoch. Here it is what a person types:")
	s.line("")
	s.act("railctl authority plan SCOPE; shadow CHANGE; cross CHANGE")
	s.line("")
	if err := d.moveAll(ctx, d.people.scopes()[:adoptBuckets], 500*time.Millisecond); err != nil {
		return err
	}
	if err := d.scriptRefused(ctx, "a script that somebody runs by hand, in a bucket that has crossed"); err != nil {
		return err
	}
	return d.checkCrossed(ctx)
}

// adoptRow fits a bucket that crossed into a narrow screen.
const adoptRow = "  %-6s  %7s  %-31s  %8s  %s"

// moveAll moves scopes one after the other, with a row for each, and some time between
// them.
func (d *adopting) moveAll(ctx context.Context, scopes []string, between time.Duration) error {
	d.screen.line("%s", d.screen.paint(styleDim, fmt.Sprintf(adoptRow, "bucket", "matters", "in the shadow", "pause", "others meanwhile")))
	for _, scope := range scopes {
		c, err := d.move(ctx, scope)
		if err != nil {
			return err
		}
		d.tellCrossed(c)
		if err := rest(ctx, between); err != nil {
			return err
		}
	}
	d.screen.line("")
	return nil
}

func (d *adopting) tellCrossed(c crossed) {
	shadow := classes(c.change.Shadow)
	if c.change.Direction == "rollback" {
		shadow = "the way back"
	}
	d.screen.line(adoptRow, strings.TrimPrefix(c.change.Scope, "matters/bucket-"), strconv.Itoa(c.matters), cut(shadow, 31),
		pauseText(c.change.MeasuredPause), count(c.during, "intent"))
}

// scriptRefused runs the old script against a matter that has crossed.
func (d *adopting) scriptRefused(ctx context.Context, what string) error {
	out, err := d.legacyVerb(ctx, d.stage.as("legacy_worker"), "script", d.people.keyIn(d.moved[0].change.Scope).Matter.String())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.screen.check(err != nil, "%s: refused: %s", what, strings.TrimPrefix(lastLine(out), "legacy: "))
	return nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (c *crowd) keyIn(scope string) rail.Key {
	for _, k := range c.keys {
		if scopeOf(k) == scope {
			return k
		}
	}
	return rail.Key{}
}

func (d *adopting) checkCrossed(ctx context.Context) error {
	s := d.screen
	alike, during := 0, 0
	for _, c := range d.moved {
		if c.report.Passed && c.report.FinalSequence == *c.change.FinalSequence {
			alike++
		}
		during += c.during
	}
	s.check(alike == len(d.moved), "%d of %s verified: the same digest of every matter on both sides, through the final sequence", alike, count(len(d.moved), "crossing"))
	_, strangers := d.people.strangers(d.moved)
	s.check(strangers == 0, "nobody in another bucket was told to wait: %s accepted there while one was closed", count(during, "intent"))
	return d.until(ctx, "the rail to build in each of them", func(ctx context.Context) (bool, error) {
		for _, c := range d.moved {
			ok, err := d.builtByRail(ctx, d.people.keyIn(c.change.Scope))
			if err != nil || !ok {
				return false, err
			}
		}
		return true, d.people.failed()
	})
}

func (d *adopting) builtByRail(ctx context.Context, k rail.Key) (bool, error) {
	runs, err := audit.Runs(ctx, d.stage.pool, audit.RunFilter{Firm: k.Firm, Matter: k.Matter, Outcome: "landed", Limit: 1})
	return len(runs) > 0 && runs[0].Builder != "import", err
}

// oneGoesBack is scene 3.
func (d *adopting) oneGoesBack(ctx context.Context) error {
	s := d.screen
	first := d.moved[0].change
	s.title("3 of 4  One goes back")
	s.tell("For a while there is a way back: what the rail commits is noted for the old side in the same transaction, and the bridge takes it over. " +
		"Five conditions are checked, and then it is a crossing like the others.")
	s.line("")
	out, err := d.ctl(ctx, "authority", "rollback", first.ID.String(), adoptReason)
	s.check(err != nil && strings.Contains(err.Error(), "restore drill"), "without a restore drill of the old side on record no way back is offered%s", out)
	if err := d.govern(ctx, "exercised", first.Scope, "restore"); err != nil {
		return err
	}
	back := rail.NewUUID()
	s.act("railctl authority rollback %s; cross CHANGE", short(first.ID))
	if _, err := d.ctl(ctx, "authority", "rollback", first.ID.String(), "--change", back.String(), "--deadline", "10s", "--budget", "10s", adoptReason); err != nil {
		return err
	}
	c, err := d.cross(ctx, back)
	if err != nil {
		return err
	}
	d.rest[c.change.Scope] = true
	d.tellCrossed(c)
	s.line("")
	s.check(c.report.Passed, "verified: what the rail had built stands on the old side, with the same digests")
	return d.oldGoesOn(ctx, c)
}

// oldGoesOn waits until the old worker has decided again for a matter that came back.
func (d *adopting) oldGoesOn(ctx context.Context, c crossed) error {
	k := d.people.keyIn(c.change.Scope)
	err := d.until(ctx, "the old worker to go on", func(ctx context.Context) (bool, error) {
		list, err := audit.Frames(ctx, d.stage.pool, k)
		return len(list) > 0 && list[0].Source == "import" && list[0].BuiltAt.After(*c.change.AdvancedAt), errors.Join(err, d.people.failed())
	})
	if err != nil {
		return err
	}
	d.screen.check(true, "the old worker decides for bucket %s again, under epoch %d", strings.TrimPrefix(c.change.Scope, "matters/bucket-"), *c.change.ToEpoch)
	return nil
}

// retirement is scene 4.
func (d *adopting) retirement(ctx context.Context) error {
	s := d.screen
	s.title("4 of 4  The rest crosses, and the old worker is retired")
	s.tell("When the last bucket has crossed the windows are closed, and the old worker can write nothing any more: no right, no login. " +
		"What it once wrote by is tried on a schedule from then on, and must be refused.")
	s.line("")
	if err := d.moveAll(ctx, slices.Sorted(maps.Keys(d.rest)), 0); err != nil {
		return err
	}
	s.check(len(d.rest) == 0, "the old worker has authority over %s", count(len(d.rest), "bucket"))
	if err := d.closeWindows(ctx); err != nil {
		return err
	}
	return d.retireOld(ctx)
}

// closeWindows completes and retires every crossing to the rail.
func (d *adopting) closeWindows(ctx context.Context) error {
	d.screen.act("railctl authority complete CHANGE; retire CHANGE, for each bucket")
	for _, c := range d.moved {
		ch, err := authority.ChangeOf(ctx, d.stage.pool, c.change.ID)
		if err != nil {
			return err
		}
		for _, verb := range []string{"complete", "retire"} {
			if ch.To != "rail" || (verb == "complete" && ch.Phase != "advanced") {
				continue
			}
			if _, err := d.ctl(ctx, "authority", verb, ch.ID.String(), "--yes", adoptReason); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *adopting) retireOld(ctx context.Context) error {
	s := d.screen
	if err := d.dismiss(d.bridge); err != nil {
		return err
	}
	if err := d.govern(ctx, "retire-writer", "legacy", "--revoke"); err != nil {
		return err
	}
	if err := d.dismiss(d.legacy); err != nil {
		return err
	}
	rights, err := authority.Rights(ctx, d.stage.pool, "legacy")
	if err != nil {
		return err
	}
	s.line("")
	s.check(len(rights) == 0, "its roles hold %s in this database", count(len(rights), "right"))
	if err := d.scriptRefused(ctx, "its last script"); err != nil {
		return err
	}
	var paths []authority.Path
	err = d.until(ctx, "the canary of the rail's worker to try them", func(ctx context.Context) (bool, error) {
		paths, err = authority.Paths(ctx, d.stage.pool)
		return slices.ContainsFunc(paths, func(p authority.Path) bool { return p.Path == "legacy_worker" && p.Refused != nil }), err
	})
	if err != nil {
		return err
	}
	for _, p := range paths {
		s.check(p.Refused != nil && *p.Refused, "the canary tried %s %s: refused, %s", p.Kind, p.Path, text(p.Answer))
	}
	return nil
}
