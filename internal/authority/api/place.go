package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// standing is who decides for a matter and how far it is, in one look: a revision of
// one epoch beside another epoch would name a state that never was.
type standing struct {
	authority.Place
	Revision int64  `json:"revision" db:"revision"`
	Retired  bool   `json:"-" db:"retired"` // the rail had it, and is not needed for it any more
	RetryMS  *int64 `json:"retry_after_ms,omitempty" db:"-"`
}

const standingSQL = `
SELECT a.scope, a.epoch, a.writer, a.kind, coalesce(a.endpoint, '') AS endpoint, a.state, a.retry_after, ops.matter_revision($1, $2) AS revision,
       a.kind <> 'rail' AND coalesce((SELECT c.phase = 'retired' FROM ops.write_fence_changes c
          WHERE c.scope = a.scope AND c.outcome = 'advanced' ORDER BY c.to_epoch DESC LIMIT 1), false) AS retired
  FROM ops.matter_authority($2) a`

func (s *Server) stands(ctx context.Context, key rail.Key) (standing, error) {
	rows, err := s.opts.DB.Query(ctx, standingSQL, key.Firm, key.Matter)
	if err != nil {
		return standing{}, fmt.Errorf("authority over %s: %w", key, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[standing])
	if err != nil {
		return p, fmt.Errorf("authority over %s: %w", key, err)
	}
	return p, nil
}

// place tells who decides for a matter: the look-up path of an answer that authority
// moved.
func (s *Server) place(r *http.Request, c caller) answer {
	key, bad := keyOf(r, c)
	if bad != nil {
		return *bad
	}
	ctx, give, ok := s.turn(r)
	if !ok {
		return tooBusy().about(key, rail.UUID{})
	}
	defer give()
	p, err := s.stands(ctx, key)
	if err != nil {
		return unanswered(err).about(key, rail.UUID{})
	}
	a := answer{name: told, status: http.StatusOK, body: p.shown(), key: key}.at(p.Epoch, p.Revision)
	if p.RetryAfter != nil {
		a = a.again(*p.RetryAfter)
	}
	a.tag = p.tag()
	if matches(r.Header.Get("If-None-Match"), a.tag) {
		a.name, a.status, a.body = notModified, http.StatusNotModified, nil
	}
	return a
}

// shown has the wait in milliseconds, as everywhere in the protocol.
func (p standing) shown() standing {
	if p.RetryAfter != nil {
		ms := p.RetryAfter.Milliseconds()
		p.RetryMS, p.RetryAfter = &ms, nil
	}
	return p
}

// tag begins with epoch and revision: a cache that keeps an answer by it cannot give
// one authority's state out as another's.
func (p standing) tag() string {
	p.RetryAfter, p.RetryMS = nil, nil // how long it will take still is no other state
	text, _ := json.Marshal(p)         // unreachable: plain values
	sum := sha256.Sum256(text)
	return fmt.Sprintf(`"%d-%d-%x"`, p.Epoch, p.Revision, sum[:6])
}

func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// find returns a receipt. One of another firm is not there.
func (s *Server) find(r *http.Request, c caller) answer {
	id, err := rail.ParseUUID(r.PathValue("id"))
	if err != nil || id.IsZero() {
		return problem(malformed, "malformed", http.StatusBadRequest, "The path names no intent", "An intent id is a UUID of the form 01234567-89ab-cdef-0123-456789abcdef.")
	}
	ctx, give, ok := s.turn(r)
	if !ok {
		return tooBusy().about(rail.Key{}, id)
	}
	defer give()
	v, err := authority.Find(ctx, s.opts.DB, id)
	switch {
	case errors.Is(err, authority.ErrUnknown), err == nil && !c.may(v.Firm):
		return problem(noReceipt, "no-receipt", http.StatusNotFound, "No such intent was received", "If authority over its matter has not moved since, it was never decided.").about(rail.Key{}, id)
	case err != nil:
		return unanswered(err).about(rail.Key{}, id)
	}
	a := answer{name: receipt, status: http.StatusOK, body: said(id, v)}.at(v.Epoch, v.Revision)
	return a.about(rail.Key{Firm: v.Firm, Matter: v.Matter}, id)
}

// moved says where authority is, with what is known of the intent. Where the rail has
// left for good its path is retired. What a verdict said stands, v, where there is one: what is
// read behind it may be of a later authority.
func (s *Server) moved(ctx context.Context, i authority.Intent, v *authority.Answer) answer {
	p, err := s.stands(ctx, i.Key)
	if err != nil {
		return unanswered(err)
	}
	if v != nil && (v.Epoch != p.Epoch || v.Writer != p.Writer) { // it went on behind the verdict
		p.Epoch, p.Writer, p.Endpoint, p.Retired = v.Epoch, v.Writer, v.Endpoint, false
	}
	return s.elsewhere(ctx, i, p, theRail, p.Retired)
}

// theRail is name and kind of the writer that decides here.
const theRail = "rail"

// elsewhere answers for asked, a writer that does not decide here; gone: for good.
func (s *Server) elsewhere(ctx context.Context, i authority.Intent, p standing, asked string, gone bool) answer {
	a := problem(epochChanged, "authority-epoch-changed", http.StatusConflict, "Authority over this matter is elsewhere or later",
		"Ask there for the receipt, then send the same intent under the epoch that is current.")
	evidence := ""
	switch {
	case gone:
		a = problem(retired, "authority-retired", http.StatusGone, "This path is retired", "It decides nothing for this matter any more. Ask where authority is for the receipt, then send the same intent there.")
		evidence = "retired_path"
	case asked != theRail && i.Epoch != nil && *i.Epoch != p.Epoch: // of what was meant for the rail, its verdict has left some
		evidence = "stale_epoch"
	}
	if evidence != "" {
		a.err = s.note(ctx, evidence, asked, i, p) // whatever becomes of it, the caller's answer is right
	}
	known, err := authority.Find(ctx, s.opts.DB, i.ID)
	if err != nil && !errors.Is(err, authority.ErrUnknown) {
		return unanswered(err)
	}
	return a.with(func(b *Problem) {
		b.Epoch, b.Writer, b.Endpoint, b.Revision = p.Epoch, p.Writer, p.Endpoint, &p.Revision
		b.LookUp = "/v1/firms/" + i.Key.Firm.String() + "/matters/" + i.Key.Matter.String() + "/authority"
		if err == nil && known.Firm == i.Key.Firm {
			b.Receipt = said(i.ID, known)
		}
	}).at(p.Epoch, p.Revision)
}

// closed asks to come back with the same intent: the scope is about to cross. What is
// demanded meanwhile in other ways is recorded as ever.
func (s *Server) closed(ctx context.Context, i authority.Intent, v authority.Answer) answer {
	wait := v.RetryAfter
	if wait == nil {
		p, err := s.stands(ctx, i.Key)
		if err != nil {
			return unanswered(err)
		}
		v.Epoch, v.Writer = p.Epoch, p.Writer
		if wait = p.RetryAfter; wait == nil { // it is open again
			wait = new(time.Duration)
		}
	}
	a := problem(closing, "authority-closing", http.StatusServiceUnavailable, "Authority over this matter is about to move", "Nothing was decided. Send the same intent again after the time that is told.")
	a = a.with(func(p *Problem) { p.Epoch, p.Writer = v.Epoch, v.Writer }).again(*wait)
	a.epoch = v.Epoch
	return a
}

// meant answers for an old writer whose address leads here. What was meant for the
// rail itself goes on.
func (s *Server) meant(ctx context.Context, writer string, i authority.Intent) (a answer, elsewhere bool) {
	var kind, status string
	err := s.opts.DB.QueryRow(ctx, `SELECT kind, status FROM ops.writers WHERE name = $1`, writer).Scan(&kind, &status)
	switch {
	case pg.IsNoRows(err):
		return problem(notFound, "unknown-writer", http.StatusNotFound, "There is no such writer", "The path names a writer that was never registered."), true
	case err != nil:
		return unanswered(err), true
	case kind == theRail:
		return a, false
	}
	p, err := s.stands(ctx, i.Key)
	if err != nil {
		return unanswered(err), true
	}
	return s.elsewhere(ctx, i, p, writer, status == "retired"), true
}

// notes keeps evidence from growing with the zeal of one caller: one row a second, for
// each scope and kind.
type notes struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (n *notes) due(what string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.last[what]) < time.Second {
		return false
	}
	if n.last == nil {
		n.last = map[string]time.Time{}
	}
	n.last[what] = now
	return true
}

// note leaves a row for the watches of the scope.
func (s *Server) note(ctx context.Context, kind, writer string, i authority.Intent, p standing) error {
	if !s.notes.due(kind+p.Scope, time.Now()) {
		return nil
	}
	_, err := s.opts.DB.Exec(ctx, `SELECT ops.note_evidence($1, $2, $3, $4, NULL, $5)`, p.Scope, kind, writer, i.Epoch,
		map[string]any{"intent": i.ID.String(), "matter": i.Key.Matter.String(), "current": p.Epoch})
	if err != nil {
		return fmt.Errorf("note %s: %w", kind, err)
	}
	return nil
}
