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
	unsent  []outbox.Pending // nothing is known against them
	lost    []outbox.Pending // their bucket is not ours any more
}

// send makes the call of every sink. No transaction is open (field report 9), and a
// call that has begun is finished also when ctx ends.
func (r *Relay) send(ctx context.Context, c call) (o outcome) {
	todo := c.facts
	for _, s := range r.sinks {
		if !s.gate.enter(ctx) {
			o.unsent = todo
			return o
		}
	}
	todo = r.owned(todo, &o)
	for _, s := range r.sinks {
		todo = r.sendTo(ctx, s, todo, &o)
	}
	o.taken = todo
	return o
}

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

// sendTo returns the facts that the sink has taken now or before; the others are
// sorted into o, one by one (field report 10).
func (r *Relay) sendTo(ctx context.Context, s *sink, facts []outbox.Pending, o *outcome) (taken []outbox.Pending) {
	var asked []outbox.Pending
	var nudges []nudge.Nudge
	for _, f := range facts {
		if slices.Contains(f.SentTo, s.Name) {
			taken = append(taken, f)
			continue
		}
		asked, nudges = append(asked, f), append(nudges, nudgeOf(f))
	}
	if len(asked) == 0 {
		return taken
	}
	results, paused := r.call(ctx, s, nudges)
	for i, f := range asked {
		switch res := results[i]; {
		case res.Verdict == nudge.Sent:
			f.SentTo = append(slices.Clone(f.SentTo), s.Name)
			taken = append(taken, f)
		case paused && res.Verdict == nudge.Paused:
			o.unsent = append(o.unsent, f)
		default:
			r.metrics.failed(res.Code)
			o.refused = append(o.refused, outbox.Refused{
				Pending: f, Code: res.Code, Text: s.Name + ": " + res.Text, SentTo: f.SentTo, Park: res.Verdict == nudge.Final,
			})
		}
	}
	return taken
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
