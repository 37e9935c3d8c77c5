package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// submit has one intent judged.
func (s *Server) submit(r *http.Request, c caller) answer {
	key, bad := keyOf(r, c)
	if bad != nil {
		return *bad
	}
	i, bad := read(r, key)
	if bad != nil {
		bad.key = key
		return *bad
	}
	ctx, give, ok := s.turn(r)
	if !ok {
		return tooBusy().about(key, i.ID)
	}
	defer give()
	if writer := r.PathValue("writer"); writer != "" {
		if a, elsewhere := s.meant(ctx, writer, i); elsewhere {
			return a.about(key, i.ID)
		}
	}
	return s.judged(ctx, i).about(key, i.ID)
}

func tooBusy() answer {
	return problem(busy, "busy", http.StatusServiceUnavailable, "Too many requests at once", "Nothing was done.").again(time.Second)
}

// read takes the intent out of the request.
func read(r *http.Request, key rail.Key) (authority.Intent, *answer) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		a := problem(unsupported, "unsupported-media-type", http.StatusUnsupportedMediaType, "The body is of a type that is not taken", "Send application/json, not compressed.")
		return authority.Intent{}, &a
	}
	body, err := io.ReadAll(r.Body)
	if tooMuch := (*http.MaxBytesError)(nil); errors.As(err, &tooMuch) {
		a := problem(tooLarge, "too-large", http.StatusRequestEntityTooLarge, "The body is too large", "An intent has some 300 bytes, and 16 KiB at most: its payload stays with the client.")
		return authority.Intent{}, &a
	}
	if err != nil {
		a := problem(malformed, "malformed", http.StatusBadRequest, "The body ended early", "Send it again.")
		return authority.Intent{}, &a
	}
	i, err := decode(body, key)
	if err != nil {
		a := problem(malformed, "malformed", http.StatusBadRequest, "The body is no intent", sentence(err))
		return authority.Intent{}, &a
	}
	return i, nil
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// judged says a verdict in HTTP.
func (s *Server) judged(ctx context.Context, i authority.Intent) answer {
	v, err := authority.Submit(ctx, s.opts.DB, i)
	if err != nil {
		return s.undecided(ctx, i, err)
	}
	switch v.Verdict {
	case authority.Accepted:
		a := answer{name: accepted, status: http.StatusAccepted, body: said(i.ID, v), epoch: v.Epoch, revision: &v.Revision}
		if v.Replayed {
			a.name = replayed
		} else {
			s.opts.Wake()
		}
		return a
	case authority.Refused:
		return declined(i, v)
	case authority.Unknown:
		a := problem(outcomeUnknown, "outcome-unknown", http.StatusConflict, "Nobody knows yet what became of this intent",
			"An earlier authority has it and has not said. Do not send it again: ask for its receipt.")
		return a.with(func(p *Problem) { p.Epoch, p.Writer, p.Receipt = v.Epoch, v.Writer, said(i.ID, v) }).at(v.Epoch, v.Revision).again(time.Second)
	case authority.OtherDigest:
		return taken(i, v)
	case authority.EpochChanged:
		return s.moved(ctx, i, &v)
	case authority.Closing:
		return s.closed(ctx, i, v)
	}
	a := problem(failed, "internal", http.StatusInternalServerError, "The verdict is not known here", "Ask for the receipt.")
	a.err = errors.New("unexpected verdict " + v.Verdict)
	return a
}

// undecided is where the database refused or did not answer. Nothing is known of the
// intent then, and the client has to ask for its receipt before it sends it again.
func (s *Server) undecided(ctx context.Context, i authority.Intent, err error) answer {
	switch pg.SQLState(err) {
	case "RF409", "RF410": // authority went between admission and commit: nothing was written
		return s.moved(ctx, i, nil)
	case "RF503":
		return s.closed(ctx, i, authority.Answer{})
	}
	return unanswered(err)
}

// unanswered is an error of the database, told apart by whether it may pass.
func unanswered(err error) answer {
	a := problem(failed, "internal", http.StatusInternalServerError, "The request failed", "It may have been done all the same: ask for the receipt.")
	if pg.IsTransient(err) || pg.IsUnknownOutcome(err) || pg.IsReadOnly(err) {
		a = problem(unavailable, "unavailable", http.StatusServiceUnavailable, "The ledger does not answer", "It may have been done all the same: ask for the receipt.").again(time.Second)
	}
	a.err = err
	return a
}

// declined is a refusal that stands: the document changed, or an old writer had a
// reason of its own.
func declined(i authority.Intent, v authority.Answer) answer {
	var why struct {
		Refused  string `json:"refused"`
		Expected *int64 `json:"expected"`
	}
	_ = json.Unmarshal(v.Result, &why) // an old writer's result may be anything
	a := problem(refused, "refused", http.StatusConflict, "The intent was refused", "The receipt has the reason of the writer that decided.")
	if why.Refused == "revision_conflict" {
		a = problem(revisionConflict, "revision-conflict", http.StatusConflict, "The document changed",
			"Look at what it is now; if it is still wanted, ask under a new intent id.")
	}
	return a.with(func(p *Problem) {
		p.Epoch, p.Writer, p.Receipt, p.Expected, p.Revision = v.Epoch, v.Writer, said(i.ID, v), why.Expected, &v.Revision
	}).at(v.Epoch, v.Revision)
}

// taken is an id that belongs to something else. Another firm's digest is not told.
func taken(i authority.Intent, v authority.Answer) answer {
	a := problem(otherDigest, "intent-differs", http.StatusUnprocessableEntity, "The intent id belongs to something else",
		"The same id was used for another payload, kind, revision or matter. An intent keeps its content: use a new id.")
	var unlike struct {
		Differs []string `json:"differs"`
	}
	_ = json.Unmarshal(v.Result, &unlike) // the database's own
	return a.with(func(p *Problem) {
		p.Given = hex.EncodeToString(i.Digest[:])
		if v.Firm == i.Key.Firm {
			p.Recorded, p.Epoch, p.Differs = hex.EncodeToString(v.PayloadDigest), v.Epoch, unlike.Differs
		}
	})
}

// with fills in a problem's own fields.
func (a answer) with(fill func(*Problem)) answer {
	if p, ok := a.body.(*Problem); ok {
		fill(p)
	}
	return a
}

// at announces what the answer was true of.
func (a answer) at(epoch, revision int64) answer {
	a.epoch, a.revision = epoch, &revision
	return a
}
