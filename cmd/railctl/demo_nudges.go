package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
)

// Counters of the workers.
const (
	receivedCounter = "rail_nudges_received_total"
	outcomeCounter  = "rail_nudges_total"
)

// passage counts what has come through since the programs started.
type passage struct {
	received int // messages that the workers had
	byNudge  int // facts that were decided because of one
	dropped  int // by the fake
}

// passed reads the counters of all workers and of the fake.
func (d *demo) passed(ctx context.Context) (p passage, err error) {
	p.dropped = d.stage.bus.Stats().Dropped
	for _, w := range d.stage.workers {
		for name, sum := range map[string]*int{
			receivedCounter:                         &p.received,
			outcomeCounter + `{outcome="demanded"}`: &p.byNudge, outcomeCounter + `{outcome="ignored"}`: &p.byNudge,
		} {
			n, err := w.counter(ctx, name)
			if err != nil {
				return p, err
			}
			*sum += int(n)
		}
	}
	return p, nil
}

// settleNudges waits until every fact is published and decided, and no message is
// under way.
func (d *demo) settleNudges(ctx context.Context) error {
	return d.watch(ctx, "every nudge to be through", func(ticket) bool {
		visible, inFlight, delayed := d.stage.bus.Depth(demoQueue)
		undecided, err := audit.OutboxCount(ctx, d.stage.pool, audit.FactFilter{Undecided: true})
		return err == nil && undecided+int64(visible+inFlight+delayed) == 0 && d.allPublished(ctx)
	})
}

func (d *demo) allPublished(ctx context.Context) bool {
	h, err := d.history(ctx)
	return err == nil && published(h.facts) == len(h.facts)
}

// published counts the facts that are marked as published.
func published(facts []audit.FactRow) (n int) {
	for _, f := range facts {
		if f.PublishedAt != nil {
			n++
		}
	}
	return n
}

// showNudges ends scene 1: what passed the bus meanwhile.
func (d *demo) showNudges(ctx context.Context) error {
	s := d.screen
	if err := d.settleNudges(ctx); err != nil {
		return err
	}
	p, err := d.passed(ctx)
	if err != nil {
		return err
	}
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	n, body := len(h.facts), d.stage.bus.Newest(demoQueue)
	s.line("")
	s.line("  %s", s.paint(styleBold, "One nudge, as it lay in the queue"))
	for _, l := range indented(body) {
		s.line("    %s", l)
	}
	s.line("")
	s.check(published(h.facts) == n, "%s, the landing's own among them: %d published by the relay", count(n, "fact"), published(h.facts))
	s.check(p.received >= n && p.byNudge > 0, "%s received by the workers: %d of the facts decided by their nudge, %d by the sweep",
		count(p.received, "nudge"), p.byNudge, n-p.byNudge)
	s.check(idsOnly(body, h.facts), "the nudge names a fact by its ids and holds nothing else: the outbox is the truth")
	return nil
}

// indented is JSON in lines; what is none comes as it is.
func indented(body string) []string {
	out, err := json.MarshalIndent(json.RawMessage(body), "", "  ")
	if err != nil {
		return []string{body}
	}
	return strings.Split(string(out), "\n")
}

// idsOnly reports whether a message is the nudge of one of the facts, to the byte.
func idsOnly(body string, facts []audit.FactRow) bool {
	n, err := nudge.Decode([]byte(body))
	if err != nil || body != string(n.Encode()) {
		return false
	}
	for _, f := range facts {
		if f.Event == n.Event {
			return f.Firm == n.Firm && f.Matter == n.Matter && f.Name == string(n.Name)
		}
	}
	return false
}

// lostNudges is scene 4: a queue is only a nudge.
func (d *demo) lostNudges(ctx context.Context) error {
	s := d.screen
	if err := d.settleNudges(ctx); err != nil {
		return err
	}
	old, err := d.history(ctx)
	if err != nil {
		return err
	}
	before, err := d.passed(ctx)
	if err != nil {
		return err
	}
	s.title("4 of %d  Every nudge is lost", d.parts())
	s.tell("From now on the bus accepts each nudge and delivers none, and nobody is told. The workers also look through "+
		"the outbox itself: a fact that is %.0f s old and undecided needs no nudge.", demoGrace.Seconds())
	d.stage.bus.SetChaos(awsfake.Chaos{Drop: 1})
	defer d.stage.bus.SetChaos(awsfake.Chaos{})
	if err := d.askUnheard(ctx); err != nil {
		return err
	}
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	after, err := d.passed(ctx)
	if err != nil {
		return err
	}
	d.checkLost(h.since(old), before, after)
	return nil
}

// askUnheard asks for a Brief and waits until it is current and all its facts decided.
func (d *demo) askUnheard(ctx context.Context) error {
	s := d.screen
	if err := d.watchFor(ctx, 0); err != nil { // the row before anything happens
		return err
	}
	s.act("the bus drops everything; somebody asks")
	if err := d.ask(ctx); err != nil {
		return err
	}
	if err := d.watchClaim(ctx); err != nil {
		return err
	}
	s.note("no nudge came; worker %s builds all the same: the sweep found the fact", d.seen.worker)
	if err := d.watchIdle(ctx); err != nil {
		return err
	}
	return d.settleNudges(ctx)
}

func (d *demo) checkLost(h history, before, after passage) {
	s, n := d.screen, len(h.facts)
	dropped := after.dropped - before.dropped
	s.line("")
	s.check(published(h.facts) == n && dropped >= n, "%s, %d published by the relay; %s lost by the bus",
		count(n, "fact"), published(h.facts), count(dropped, "nudge"))
	s.check(after.received == before.received, "%s received by the workers", count(after.received-before.received, "nudge"))
	s.check(swept(h.facts), "%s: the sweep took each fact once it was %.0f s old", count(n, "receipt"), demoGrace.Seconds())
	s.check(len(h.runs) == 1 && len(h.frames) == 1, "%s, %s", count(len(h.runs), "build"), count(len(h.frames), "frame"))
	s.check(d.seen.Landed == d.seen.Requested, "the Brief is current: landed = requested")
}

// swept reports whether each fact was decided no sooner than the sweep may.
func swept(facts []audit.FactRow) bool {
	for _, f := range facts {
		// both times are the database's; the grace is counted from the same
		if f.DecidedAt == nil || f.DecidedAt.Sub(f.RecordedAt) < demoGrace-100*time.Millisecond {
			return false
		}
	}
	return len(facts) > 0
}
