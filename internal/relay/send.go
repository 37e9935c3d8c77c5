package relay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
)

// outcome sorts the facts of a call by what became of them.
type outcome struct {
	taken   []outbox.Pending // by every sink
	refused []outbox.Refused
	waiting []outbox.Refused // taken by one sink, and another is paused
	unsent  []outbox.Pending // nothing is known against them
	lost    []outbox.Pending // their bucket is not ours any more
}

// send makes the call of every sink that may be called. No transaction is open (field
// report 9), and a call that has begun is finished also when ctx ends.
func (r *Relay) send(ctx context.Context, c call) (o outcome) {
	todo := c.facts
	for _, s := range r.sinks {
		todo = r.sendTo(ctx, s, todo, &o)
	}
	for _, f := range todo {
		r.sort(f, &o)
	}
	return o
}

// sort puts a fact that no sink has refused where it belongs. What a sink took is
// noted before the fact is let go of, so that it is not sent there again.
func (r *Relay) sort(f outbox.Pending, o *outcome) {
	missing := slices.IndexFunc(r.sinks, func(s *sink) bool { return !slices.Contains(f.SentTo, s.Name) })
	switch {
	case missing < 0:
		o.taken = append(o.taken, f)
	case len(f.SentTo) == 0 || f.WaitsFor == r.sinks[missing].Name:
		o.unsent = append(o.unsent, f) // nothing new is known
	default:
		name := r.sinks[missing].Name
		o.waiting = append(o.waiting, outbox.Refused{Pending: f, Code: waits, Text: name + " is paused", SentTo: f.SentTo, WaitsFor: name})
	}
}

// waits is the code of facts that wait for a paused sink.
const waits = "SinkPaused"

// owned leaves out facts of buckets that were lost while they waited.
func (r *Relay) owned(facts []outbox.Pending, o *outcome) (ours []outbox.Pending) {
	for _, f := range facts {
		if r.hand.owns(f) {
			ours = append(ours, f)
		} else {
			o.lost = append(o.lost, f)
		}
	}
	return ours
}

// sendTo returns the facts that the sink has taken now or before, and those that it
// was not asked for, as it is paused: they go on to the next sink all the same. The
// others are sorted into o, one by one (field report 10).
func (r *Relay) sendTo(ctx context.Context, s *sink, facts []outbox.Pending, o *outcome) (on []outbox.Pending) {
	var asked []outbox.Pending
	for _, f := range facts {
		if slices.Contains(f.SentTo, s.Name) {
			on = append(on, f)
		} else {
			asked = append(asked, f)
		}
	}
	if len(asked) == 0 {
		return on
	}
	if !s.gate.enter(ctx) {
		return append(on, asked...)
	}
	if asked = r.owned(asked, o); len(asked) == 0 {
		s.gate.leave()
		return on
	}
	nudges := make([]nudge.Nudge, len(asked))
	for i, f := range asked {
		nudges[i] = nudgeOf(f)
	}
	results, paused := r.call(ctx, s, nudges)
	for i, f := range asked {
		switch res := results[i]; {
		case res.Verdict == nudge.Sent:
			f.SentTo = append(slices.Clone(f.SentTo), s.Name)
			on = append(on, f)
		case paused && res.Verdict == nudge.Paused:
			on = append(on, f)
		default:
			r.metrics.failed(res.Code)
			o.refused = append(o.refused, outbox.Refused{
				Pending: f, Code: res.Code, Text: s.Name + ": " + res.Text, SentTo: f.SentTo, Park: res.Verdict == nudge.Final,
			})
		}
	}
	return on
}

// call makes one call and returns a result for each nudge, whatever the sink
// answered. Paused means that the sink is shut and no fact is to blame.
func (r *Relay) call(ctx context.Context, s *sink, nudges []nudge.Nudge) (results []nudge.Result, paused bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Timeout)
	defer cancel()
	ctx, end := r.traced(ctx, s, nudges)
	results, err := s.Publish(ctx, nudges)
	end(results, err)
	if err == nil && len(results) != len(nudges) {
		err = fmt.Errorf("%d results for %d nudges", len(results), len(nudges))
	}
	if err == nil {
		m, code, text := moodOf(results)
		r.said(ctx, s, m, code, text)
		return results, m == forbidden
	}
	m, code := moodOfError(err)
	r.said(ctx, s, m, code, err.Error())
	one := nudge.Result{Verdict: nudge.Retry, Code: code, Text: err.Error()}
	if m == forbidden {
		one.Verdict = nudge.Paused
	}
	return slices.Repeat([]nudge.Result{one}, len(nudges)), m == forbidden
}

// said tells the sink's gate, and people once when that changed something.
func (r *Relay) said(ctx context.Context, s *sink, m mood, code, text string) {
	switch s.gate.said(m, code+": "+text) {
	case nowPaused:
		r.metrics.failed(code)
		r.metrics.paused.WithLabelValues(s.Name).Set(1)
		r.opts.Log.ErrorContext(ctx, "sink paused: somebody has to configure it", slog.String("sink", s.Name), slog.String("outcome", code), slog.String("err", short(text)))
	case nowOpen:
		r.metrics.paused.WithLabelValues(s.Name).Set(0)
		r.opts.Log.InfoContext(ctx, "sink takes nudges again", slog.String("sink", s.Name))
	case same:
	}
}
