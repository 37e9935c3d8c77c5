package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/brief"
	"briefrail/internal/outbox"
)

// together is scene 1: several documents, one Brief.
func (d *demo) together(ctx context.Context) error {
	s := d.screen
	s.title("1 of %d  Documents land together: one Brief", d.parts())
	s.tell("Each document is stored in one transaction with its fact, a row that says “document.uploaded”. "+
		"Nobody asks for a Brief: %s, and keep one job row for the matter, shown here. "+
		"Its numbers are generations: each demand takes the next one, and so does each claim of a worker.", d.wayOfFacts())
	s.head()
	if err := d.storeDocuments(ctx); err != nil {
		return err
	}
	if err := d.watchClaim(ctx); err != nil {
		return err
	}
	s.note("it was quiet for %.1f s: worker %s builds once, under token %d", demoSettle.Seconds(), d.seen.worker, d.seen.Claimed)
	if err := d.watchIdle(ctx); err != nil {
		return err
	}
	s.note("the frame has landed")
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	d.checkTogether(h)
	if err := d.showBrief(ctx); err != nil || d.stage.bus == nil {
		return err
	}
	return d.showNudges(ctx)
}

// wayOfFacts is how the workers come to know of a fact.
func (d *demo) wayOfFacts() string {
	if d.stage.bus == nil {
		return "the workers read the facts"
	}
	return "a relay sends each fact's ids, a nudge, over the bus into a queue; the workers look the fact up in the outbox"
}

// storeDocuments lands all of them, each with its fact, within a second where there
// are few.
func (d *demo) storeDocuments(ctx context.Context) error {
	gap := min(250*time.Millisecond, 800*time.Millisecond/time.Duration(len(d.docs)))
	for i, doc := range d.docs {
		in, err := brief.Save(ctx, d.stage.pool, d.key, doc, brief.IngestOptions{})
		if err != nil {
			return err
		}
		d.pages[in.DocumentID] = doc.Pages
		d.tellStored(in)
		if i < len(d.docs)-1 && len(d.docs) <= manyDocuments {
			if err := d.watchFor(ctx, gap); err != nil {
				return err
			}
		}
	}
	return nil
}

// manyDocuments are too many for a line each.
const manyDocuments = 8

func (d *demo) tellStored(in brief.Ingested) {
	switch {
	case in.Outcome == brief.OutcomePresent:
		d.screen.warn("%s holds the same bytes as another one: no new document, no fact", in.Name)
	case len(d.docs) <= manyDocuments:
		d.screen.act("%s lands, %s, fact %s", in.Name, count(in.Pages, "page"), short(in.EventID))
	case len(d.pages) == 1:
		d.screen.act("%s land, each with its fact", count(len(d.docs), "document"))
	}
}

// watchClaim shows the row until a worker has claimed the job.
func (d *demo) watchClaim(ctx context.Context) error {
	return d.watch(ctx, "a claim", func(t ticket) bool { return t.Status == "running" })
}

func (d *demo) checkTogether(h history) {
	s, facts := d.screen, h.named("document.uploaded")
	n := len(d.pages) // documents that are not copies of another
	s.line("")
	first, last := facts[0].RecordedAt, facts[len(facts)-1].RecordedAt
	s.check(len(facts) == n, "%s for %s, recorded within %.1f s", count(len(facts), "fact"), count(n, "document"), last.Sub(first).Seconds())
	s.check(demanded(facts) == n, "%s: every fact was decided, and each became demand", count(demanded(facts), "receipt"))
	s.check(len(h.runs) == 1 && h.runs[0].Outcome == "landed" && h.runs[0].Demands == int64(n),
		"%s, which served %s", count(len(h.runs), "build"), count(h.runs[0].Demands, "demand"))
	s.check(len(h.frames) == 1, "%s: the Brief, of generation %d", count(len(h.frames), "frame"), d.seen.Landed)
	s.check(d.seen.Landed == d.seen.Requested, "the Brief is current: landed = requested")
}

// twoPeople is scene 2: interest during a build never starts a second one.
func (d *demo) twoPeople(ctx context.Context) error {
	s := d.screen
	before, err := d.history(ctx)
	if err != nil {
		return err
	}
	s.title("2 of %d  Two people ask during one build", d.parts())
	s.tell("The second question comes while the answer to the first is being built, so that answer may miss what " +
		"the second person knows. It must not start a second build beside the first, and must not be forgotten.")
	if err := d.firstPerson(ctx); err != nil {
		return err
	}
	flagged, err := d.secondPerson(ctx)
	if err != nil {
		return err
	}
	if err := d.watchIdle(ctx); err != nil {
		return err
	}
	after, err := d.history(ctx)
	if err != nil {
		return err
	}
	d.checkTwoPeople(after.since(before), flagged)
	return nil
}

func (d *demo) firstPerson(ctx context.Context) error {
	if err := d.watchFor(ctx, 0); err != nil { // the row before anything happens
		return err
	}
	d.screen.act("the first person asks")
	if err := d.ask(ctx); err != nil {
		return err
	}
	if err := d.watchClaim(ctx); err != nil {
		return err
	}
	return d.watchFor(ctx, demoBuild/3)
}

// secondPerson asks while the build runs; it reports whether the row remembered
// that beside the same claim.
func (d *demo) secondPerson(ctx context.Context) (flagged bool, err error) {
	run := d.seen.RunID
	d.screen.act("the second person asks, in the middle of the build")
	if err := d.ask(ctx); err != nil {
		return false, err
	}
	err = d.watch(ctx, "the job to remember", func(t ticket) bool {
		flagged = t.RunID == run && t.RebuildNeeded
		return flagged || t.RunID != run
	})
	if err != nil {
		return flagged, err
	}
	d.screen.note("the build goes on alone; the job remembers that it is needed once more")
	if err := d.watch(ctx, "the first build to end", func(t ticket) bool { return t.RunID != run }); err != nil {
		return flagged, err
	}
	if err := d.watchClaim(ctx); err != nil {
		return flagged, err
	}
	d.screen.note("the first answer has landed, and its follow-up builds")
	return flagged, nil
}

func (d *demo) checkTwoPeople(h history, flagged bool) {
	s, facts := d.screen, h.named("brief.requested")
	s.line("")
	s.check(len(facts) == 2 && demanded(facts) == 2, "%s, %s", count(len(facts), "fact"), count(demanded(facts), "receipt"))
	s.check(flagged, "the second question became a mark on the running job: rebuild needed")
	s.check(len(h.runs) == 2, "%s: the one that was running, and exactly one follow-up", count(len(h.runs), "build"))
	beside := len(h.runs) == 2 && (h.runs[0].FinishedAt == nil || h.runs[1].StartedAt.Before(*h.runs[0].FinishedAt))
	s.check(!beside, "the follow-up began after the first build had ended: never two at a time")
	s.check(len(h.frames) == 2, "%s, each newer than the one before", count(len(h.frames), "frame"))
	s.check(d.seen.Landed == d.seen.Requested, "the Brief is current: landed = requested")
}

// ask appends the fact that somebody wants the Brief, as any producer would.
func (d *demo) ask(ctx context.Context) error {
	sql := `WITH asked AS (SELECT @firm::uuid AS firm_id, @matter::uuid AS matter_id)` +
		outbox.AppendFromCTE("told", "asked", "true", "@traceparent::text") + ` SELECT event_id FROM told`
	_, err := d.stage.pool.Exec(ctx, sql, pgx.NamedArgs{
		"firm": d.key.Firm, "matter": d.key.Matter, "fact": "brief.requested", "traceparent": nil,
	})
	if err != nil {
		return fmt.Errorf("append the fact brief.requested: %w", err)
	}
	return nil
}
