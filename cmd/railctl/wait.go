package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const waitHelp = `Wait until a matter's Brief is current: nothing is owed, and no fact of it waits for
the trigger. Ends with 4 when the matter is parked, as it then waits for a person,
and with 5 when --timeout runs out first.`

// Pauses between two looks: short at first, because most waits are.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

func (a *app) waitVerb() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{Use: "wait MATTER", Short: "Wait until a Brief is current, or parked", Long: waitHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "longest wait")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, args []string) error {
		k, err := s.matter(ctx, args[0])
		if err != nil {
			return err
		}
		return s.wait(ctx, k, timeout)
	})
	return cmd
}

// awaited is how a wait ended.
type awaited struct {
	rail.Key
	State   string `json:"state"` // current, parked, or what it was when time ran out
	Landed  int64  `json:"landed_generation"`
	Waited  string `json:"waited"`
	Timeout bool   `json:"timed_out"`
}

func (s *session) wait(ctx context.Context, k rail.Key, timeout time.Duration) error {
	start := time.Now()
	w := s.working("waiting for " + k.String())
	out, err := s.await(ctx, k, start.Add(timeout), w)
	w.end()
	if err != nil {
		return err
	}
	out.Waited = time.Since(start).Round(time.Millisecond).String()
	err = s.show(view{kind: "wait", data: out, names: []string{k.String()}, table: func(p *page) {
		p.line("%s is %s, generation %d, after %s", k, out.State, out.Landed, out.Waited)
	}})
	switch {
	case err != nil:
		return err
	case out.Timeout:
		return fail(exitTimeout, "not current within %s", span(timeout))
	case out.State == "parked":
		return fail(exitRefused, "the matter is parked: railctl explain %s", k)
	}
	return nil
}

// await looks until there is an answer or the time is up. A database that is away
// for a while is waited for as well.
func (s *session) await(ctx context.Context, k rail.Key, end time.Time, w *work) (out awaited, err error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		out, err = s.look(ctx, k)
		switch {
		case err != nil && (!pg.IsTransient(err) || time.Now().After(end)):
			return out, err
		case err == nil && (out.State == "current" || out.State == "parked"):
			return out, nil
		case time.Now().After(end):
			out.Timeout = true
			return out, nil
		}
		w.say("%s", out.State)
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(min(pause, max(0, time.Until(end)))):
		}
	}
}

// look reads the job and whether facts wait; a fact that is not decided yet may
// become the first demand.
func (s *session) look(ctx context.Context, k rail.Key) (out awaited, err error) {
	out.Key = k
	undecided, err := s.undecided(ctx, k)
	if err != nil {
		return out, err
	}
	j, err := audit.ReadJob(ctx, s.pool, k)
	switch {
	case errors.Is(err, audit.ErrNotFound) && undecided:
		out.State = "undecided"
		return out, nil
	case errors.Is(err, audit.ErrNotFound):
		return out, s.unknown(ctx, k)
	case err != nil:
		return out, err
	}
	out.State, out.Landed = j.Status, j.Landed
	switch {
	case j.Status == "idle" && undecided:
		out.State = "undecided"
	case j.Status == "idle":
		out.State = "current"
	}
	return out, nil
}

// undecided reports whether a fact that may become demand waits for the trigger.
// The rail's own facts wait as well, but never become any.
func (s *session) undecided(ctx context.Context, k rail.Key) (bool, error) {
	facts, err := audit.Outbox(ctx, s.pool, audit.FactFilter{Firm: k.Firm, Matter: k.Matter, Undecided: true, Limit: 1000})
	return slices.ContainsFunc(facts, func(f audit.FactRow) bool { return !rail.OwnFact(rail.EventName(f.Name)) }), err
}
