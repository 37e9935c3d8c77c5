package authority

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"briefrail/internal/rail"
)

// Head is the current frame of a matter as one side has it.
type Head struct {
	Key      rail.Key
	Revision int64  // the old writer's sequence, or the rail's generation
	Digest   []byte // of the canonical form
}

// Heads reads the other side's heads of a scope, up to a sequence. It should keep the
// digests of what has not changed: it is asked inside the pause.
type Heads func(ctx context.Context, scope string, upTo int64) ([]Head, error)

// Verify looks at the whole sealed scope: the seven invariants, everything imported,
// no intent without an outcome, facts published, and, where the other side can be
// asked, the same digests there. What it found is stored; a report with a finding keeps
// the change from advancing. heads may be nil. A change that is past it, or has ended,
// is returned with its last report.
func (c Controller) Verify(ctx context.Context, change rail.UUID, heads Heads) (Change, Report, error) {
	ch, err := ChangeOf(ctx, c.DB, change)
	if err == nil && ch.Outcome == "" {
		ch, _, err = c.judged(ctx, ch, heads)
	}
	if err != nil {
		return ch, Report{}, err
	}
	reports, err := Reports(ctx, c.DB, change)
	if err != nil || len(reports) == 0 {
		return ch, Report{}, err
	}
	return ch, reports[0], nil
}

// judged stores a report of a change as it was read, and returns what is in it: inside
// the pause nobody asks for it again.
func (c Controller) judged(ctx context.Context, ch Change, heads Heads) (Change, []Finding, error) {
	if ch.FinalSequence == nil { // too early: the database says what is missing
		early, err := c.step(ctx, "Verify", `ops.report_change($1, 0, ''::bytea, '[]', interval '0')`, ch.ID)
		return early, nil, err
	}
	begun := time.Now()
	l, err := c.survey(ctx, ch, heads)
	if err != nil {
		return ch, nil, err
	}
	found := append(l.broken, l.apart...)
	now, err := c.step(ctx, "Verify", `ops.report_change($1, $2, $3, $4, $5)`, ch.ID, l.matters, l.digest, asText(found), time.Since(begun))
	if err != nil {
		return ch, nil, err
	}
	return now, found, nil
}

// surveyed is what there is to say of a sealed scope.
type surveyed struct {
	broken, apart []Finding // what is wrong here, and what differs from the other side
	matters       int64
	digest        []byte // of all heads
}

// survey has two sessions look at once, where the controller has two: nothing in a sealed
// scope moves.
func (c Controller) survey(ctx context.Context, ch Change, heads Heads) (l surveyed, err error) {
	var both errgroup.Group
	other := c
	if c.second == nil {
		both.SetLimit(1)
	} else {
		other.DB = c.second
	}
	both.Go(func() (err error) { l.broken, err = c.broken(ctx, ch); return err })
	both.Go(func() (err error) {
		if l.apart, err = other.apart(ctx, ch, heads); err != nil {
			return err
		}
		err = other.DB.QueryRow(ctx, `SELECT matters, digest FROM ops.scope_digest($1)`, ch.Scope).Scan(&l.matters, &l.digest)
		return wrap("Verify: digest", err)
	})
	err = both.Wait()
	return l, err
}

// broken asks the database for what must not cross.
func (c Controller) broken(ctx context.Context, ch Change) ([]Finding, error) {
	rows, err := list[struct {
		Check  string    `db:"check_name"`
		Firm   rail.UUID `db:"firm"`
		Matter rail.UUID `db:"matter"`
		Detail string    `db:"detail"`
	}](ctx, c.DB, "Verify", `SELECT check_name, firm, matter, detail FROM ops.verify_scope($1, $2, $3)`, ch.Scope, ch.From, ch.FinalSequence)
	if err != nil {
		return nil, err
	}
	found := []Finding{}
	for _, r := range rows {
		found = append(found, Finding{Check: r.Check, Firm: spelt(r.Firm), Matter: spelt(r.Matter), Detail: r.Detail})
	}
	return found, nil
}

func spelt(u rail.UUID) string {
	if u.IsZero() {
		return ""
	}
	return u.String()
}

// mostFindings of one kind are enough to say what is wrong.
const mostFindings = 20

// apart lists the matters whose heads differ between the two sides. A matter that only
// one side has differs; revisions count for imported frames alone, as the rail's own
// are numbered by it. Without heads nobody is asked.
func (c Controller) apart(ctx context.Context, ch Change, heads Heads) ([]Finding, error) {
	if heads == nil {
		return nil, nil
	}
	theirs, err := heads(ctx, ch.Scope, *ch.FinalSequence)
	if err != nil {
		return nil, wrap("Verify: the other side", err)
	}
	rows, err := list[struct {
		Firm     rail.UUID `db:"firm"`
		Matter   rail.UUID `db:"matter"`
		Revision int64     `db:"revision"`
		Digest   []byte    `db:"digest"`
		Source   string    `db:"source"`
	}](ctx, c.DB, "Verify: heads", `SELECT firm, matter, revision, digest, source FROM ops.scope_heads($1)`, ch.Scope)
	if err != nil {
		return nil, err
	}
	other := make(map[rail.Key]Head, len(theirs))
	for _, h := range theirs {
		other[h.Key] = h
	}
	var found []Finding
	differ := func(k rail.Key, detail string) {
		if len(found) < mostFindings {
			found = append(found, Finding{Check: "digests", Firm: spelt(k.Firm), Matter: spelt(k.Matter), Detail: detail})
		}
	}
	for _, r := range rows {
		k := rail.Key{Firm: r.Firm, Matter: r.Matter}
		h, ok := other[k]
		delete(other, k)
		switch {
		case !ok:
			differ(k, "the other side does not have it")
		case r.Source == "import" && h.Revision != r.Revision:
			differ(k, fmt.Sprintf("revision %d here, %d there", r.Revision, h.Revision))
		case !bytes.Equal(h.Digest, r.Digest):
			differ(k, fmt.Sprintf("digest %s here, %s there", short(r.Digest), short(h.Digest)))
		}
	}
	for k := range other {
		differ(k, "only the other side has it")
	}
	return found, nil
}

func short(digest []byte) string { return hex.EncodeToString(digest[:min(len(digest), 6)]) }
