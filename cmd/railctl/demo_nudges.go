package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/nudge"
)

// Counters of the workers.
const (
	receivedCounter = "rail_nudges_received_total"
	outcomeCounter  = "rail_nudges_total"
)

// passage counts what has come through since the programs started.
type passage struct {
	carried  int // facts whose nudge was seen on the bus
	received int // messages that the workers had
	byNudge  int // facts that were decided because of one
}

// passed looks at the bus and reads the counters of all workers.
func (d *demo) passed(ctx context.Context) (p passage, err error) {
	if err := d.stage.bus.look(ctx); err != nil {
		return p, err
	}
	p.carried = len(d.stage.bus.seen)
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

// settleNudges waits until every fact is published, seen on the bus and decided, and
// no message is under way. heard says that the workers' queue gets them too: an event
// that the bus has taken may be on its way there yet.
func (d *demo) settleNudges(ctx context.Context, heard bool) error {
	var failed error
	err := d.watch(ctx, "every nudge to be through", func(ticket) (through bool) {
		through, failed = d.through(ctx, heard)
		return through || failed != nil
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, context.DeadlineExceeded):
		return errors.Join(err, d.stuck(ctx))
	}
	return err
}

// stuck says where nudges are that did not come through.
func (d *demo) stuck(ctx context.Context) error {
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	p, err := d.passed(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %d published by the relay, %d seen on the bus at %s, %s received by the workers",
		count(len(h.facts), "fact"), published(h.facts), p.carried, d.stage.bus.url, count(p.received, "nudge"))
}

func (d *demo) through(ctx context.Context, heard bool) (bool, error) {
	waiting, err := d.stage.bus.Waiting(ctx)
	if err != nil {
		return false, err
	}
	undecided, err := audit.OutboxCount(ctx, d.stage.pool, audit.FactFilter{Undecided: true})
	if err != nil {
		return false, err
	}
	h, err := d.history(ctx)
	if err != nil || waiting > 0 || undecided > 0 || published(h.facts) < len(h.facts) {
		return false, err
	}
	p, err := d.passed(ctx)
	return p.carried >= len(h.facts) && (p.received >= len(h.facts) || !heard), err
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
	if err := d.settleNudges(ctx, true); err != nil {
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
	n, event := len(h.facts), d.stage.bus.newest
	s.line("")
	s.line("  %s", s.paint(styleBold, "One event, as the bus carried it; its detail is the nudge"))
	for _, l := range indented(event) {
		s.line("  %s", l)
	}
	s.line("")
	s.check(published(h.facts) == n && p.carried == n, "%s, the landing's own among them: %d published by the relay, %d seen on the bus",
		count(n, "fact"), published(h.facts), p.carried)
	s.check(p.received >= n && p.byNudge > 0, "%s received by the workers: %d of the facts decided by their nudge, %d by the sweep",
		count(p.received, "nudge"), p.byNudge, n-p.byNudge)
	s.check(idsOnly(event, h.facts), "the nudge names a fact by its ids and holds nothing else: the outbox is the truth")
	return nil
}

// indented is JSON in lines; what is none comes as it is.
func indented(body []byte) []string {
	out, err := json.MarshalIndent(json.RawMessage(body), "", "  ")
	if err != nil {
		out = body
	}
	return strings.Split(string(out), "\n")
}

// idsOnly reports whether an event's detail is the nudge of one of the facts and has
// no member more. The members' order is the endpoint's.
func idsOnly(event []byte, facts []audit.FactRow) bool {
	var envelope struct{ Detail map[string]any }
	n, err := nudge.Decode(event)
	if err != nil || json.Unmarshal(event, &envelope) != nil {
		return false
	}
	var want map[string]any
	if json.Unmarshal(n.Encode(), &want) != nil || !reflect.DeepEqual(envelope.Detail, want) {
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
	if err := d.settleNudges(ctx, true); err != nil {
		return err
	}
	s.title("4 of %d  Every nudge is lost", d.parts())
	s.tell("From now on the bus accepts each nudge and the workers' queue gets none: its rule has lost that target, and nobody is told. "+
		"The workers also look through the outbox itself: a fact that is %.0f s old and undecided needs no nudge.", demoGrace.Seconds())
	if err := d.cutOff(ctx); err != nil {
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
	return d.stage.bus.Mend(ctx)
}

// cutOff takes the queue from the rule and waits for what had left the bus before.
func (d *demo) cutOff(ctx context.Context) error {
	if err := d.stage.bus.Cut(ctx); err != nil {
		return err
	}
	if err := d.watchFor(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	return d.settleNudges(ctx, true)
}

// askUnheard asks for a Brief and waits until it is current and all its facts decided.
func (d *demo) askUnheard(ctx context.Context) error {
	s := d.screen
	s.act("the bus loses everything; somebody asks")
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
	return d.settleNudges(ctx, false)
}

func (d *demo) checkLost(h history, before, after passage) {
	s, n := d.screen, len(h.facts)
	lost := after.carried - before.carried
	s.line("")
	s.check(published(h.facts) == n && lost == n, "%s, %d published by the relay; %s seen on the bus and lost behind it",
		count(n, "fact"), published(h.facts), count(lost, "nudge"))
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
