package console

import (
	"context"
	"net/url"
	"slices"

	"briefrail/internal/audit"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

// outboxView is the facts: on their way in, on their way out, and the latest.
type outboxView struct {
	At       moment `json:"-"`
	Facts    factsView
	Canary   moment
	Parked   []parkedFact
	Name     string
	Verdict  string
	Verdicts []string
	Latest   []factRow
}

type parkedFact struct {
	Event    rail.UUID
	Key      rail.Key
	Name     string
	Recorded moment
	Parked   moment
	Attempts int
	Code     string
	Reason   string
}

type factRow struct {
	Event      rail.UUID
	Key        rail.Key
	Name       string
	Recorded   moment
	Published  moment
	Verdict    string
	Generation int64
	Undecided  bool
}

// mostFacts is how many facts are listed.
const mostFacts = 50

func (c *Console) readOutbox(ctx context.Context, q url.Values) (any, error) {
	v := outboxView{Name: q.Get("name"), Verdict: q.Get("verdict"), Verdicts: []string{"none", "demanded", "ignored", "gated:%"}}
	if v.Verdict != "" && !slices.Contains(v.Verdicts, v.Verdict) {
		return nil, wrongf("verdict=%q: use one of %q", clip(40, v.Verdict), v.Verdicts)
	}
	st, err := audit.ReadStatus(ctx, c.opts.DB)
	if err != nil {
		return nil, err
	}
	x := moments{st.At}
	v.At, v.Canary = x.of(st.At), x.maybe(st.CanaryLanded)
	if v.Facts, err = c.readFacts(ctx, x, st); err != nil {
		return nil, err
	}
	parked, err := outbox.ListParked(ctx, c.opts.DB, mostFacts)
	if err != nil {
		return nil, err
	}
	for _, p := range parked {
		v.Parked = append(v.Parked, parkedFact{p.Event, rail.Key{Firm: p.Firm, Matter: p.Matter}, string(p.Name), x.of(p.RecordedAt), x.of(p.ParkedAt), p.Attempts, p.Code, p.Reason})
	}
	facts, err := audit.Outbox(ctx, c.opts.DB, audit.FactFilter{Name: v.Name, Verdict: v.Verdict, Limit: mostFacts})
	for _, f := range facts {
		v.Latest = append(v.Latest, factRow{f.Event, rail.Key{Firm: f.Firm, Matter: f.Matter}, f.Name, x.of(f.RecordedAt), x.maybe(f.PublishedAt), f.Verdict, f.Generation, f.Undecided})
	}
	return v, err
}
