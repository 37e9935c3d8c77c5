package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// mostReason is how long a reason may be, in characters.
const mostReason = 500

// actor is who acts, and why: the session's name and the form's reason.
func (c *Console) actor(r *http.Request, s *session) (jobs.Actor, error) {
	reason := strings.TrimSpace(plain(r.PostForm.Get("why")))
	switch {
	case reason == "":
		return jobs.Actor{}, wrong{errors.New("say why: the reason goes into the audit log")}
	case utf8.RuneCountInString(reason) > mostReason:
		return jobs.Actor{}, wrongf("the reason has %d characters, at most %d are kept", utf8.RuneCountInString(reason), mostReason)
	}
	return jobs.Actor{Name: s.Name + " (console)", Reason: reason}, nil
}

// did makes the next look a new one, and leaves a line in the log.
func (c *Console) did(r *http.Request, _ *session, act jobs.Actor, action, target string) {
	c.looks.forget()
	wake(c.watchers.woken)
	c.opts.Log.InfoContext(r.Context(), "an operator acted", slog.String("actor", clip(mostName, act.Name)), slog.String("action", action), slog.String("target", target))
}

// within runs an act in one transaction.
func (c *Console) within(r *http.Request, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), c.opts.Timeout)
	defer cancel()
	return pg.InTx(ctx, c.opts.DB, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// actOnMatter does one deed to one matter.
func (c *Console) actOnMatter(w http.ResponseWriter, r *http.Request, s *session) {
	act, err := c.actor(r, s)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	k, err := rail.ParseKey(r.PostForm.Get("of"))
	if err != nil {
		c.failed(w, r, wrongf("of=: %w", err))
		return
	}
	verb, said := r.PostForm.Get("verb"), ""
	err = c.within(r, func(ctx context.Context, tx pgx.Tx) (err error) {
		said, err = deedDone(ctx, tx, act, verb, k)
		return err
	})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.did(r, s, act, "matter."+verb, k.String())
	s.say(said)
	redirect(w, "matter?of="+url.QueryEscape(k.String()))
}

// deedDone does it, or says why the state of the matter does not allow it.
func deedDone(ctx context.Context, tx pgx.Tx, act jobs.Actor, verb string, k rail.Key) (string, error) {
	switch verb {
	case "demand":
		_, err := act.Demand(ctx, tx, []rail.Key{k}, rail.Standard)
		return "A build was demanded: " + act.Reason + ".", err
	case "unpark":
		was, err := act.Unpark(ctx, tx, k)
		if err == nil && !was {
			err = refusedf("the matter is not parked, so there is nothing to unpark")
		}
		return "Unparked: " + act.Reason + ".", err
	case "park", "cancel":
		stop, done := act.Park, "Parked: "
		if verb == "cancel" {
			stop, done = act.Cancel, "The build was cancelled, and the matter parked: "
		}
		was, err := stop(ctx, tx, k)
		if err == nil && was == "" {
			err = refusedf("the matter is neither queued nor running, so there is nothing to %s", verb)
		}
		return done + act.Reason + ".", err
	}
	return "", wrongf("verb=%q: use demand, park, unpark or cancel", clip(20, verb))
}

// replayParked has every parked fact sent again.
func (c *Console) replayParked(w http.ResponseWriter, r *http.Request, s *session) {
	act, err := c.actor(r, s)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	var n int64
	err = c.within(r, func(ctx context.Context, tx pgx.Tx) error {
		there, err := outbox.CountParked(ctx, tx)
		if err != nil {
			return err
		}
		if want := r.PostForm.Get("count"); want != fmt.Sprint(there) {
			return refusedf("the page counted %s parked facts, and now there are %d: look again", clip(12, want), there)
		}
		n, err = outbox.Replay(ctx, tx, nil, act.Name, act.Reason)
		return err
	})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.did(r, s, act, "outbox.replay", "parked")
	s.say(fmt.Sprintf("To be sent again: %s.", plural(n, "fact", "facts")))
	redirect(w, "outbox")
}
