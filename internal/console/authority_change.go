package console

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// What is shown of one change at most.
const (
	mostReports  = 5
	mostFindings = 100
	mostBlockers = 100
)

// changeView is one move of authority over one scope.
type changeView struct {
	At                 moment `json:"-"`
	Change             authority.Change
	Steps              []changeStep
	Deadline           moment // of the closing, while it is closed
	Window             moment // its end, while the way back is open
	Pause              pause
	Next               nextStep
	Newest             rail.UUID // the scope has gone on with this one; nil UUID: it has not
	Holds              []holdRow
	Conditions         []authority.Condition // of the way back
	Reports            []reportRow
	Blockers           []blockerRow
	MoreBlockers       int
	Relations          []authority.Relation
	Shadow             []authority.ShadowClass
	PlanBad, ShadowBad bool // what is stored cannot be read
}

// changeStep is one phase of a change, and when it was reached.
type changeStep struct {
	Name, About string
	Look        string // done, now, ahead, bad
	At          moment
	After       string // since the closing
}

// Current reports whether the change is at this step.
func (s changeStep) Current() bool { return s.Look == "now" || s.Look == "bad" }

// reportRow is one verification.
type reportRow struct {
	ID, Matters, FinalSequence int64
	Made                       moment
	Passed                     bool
	Took, Digest               string
	Findings                   []findingRow
	More                       int
}

type findingRow struct {
	Check, Detail string
	Key           rail.Key // the zero matter where it names none
}

// blockerRow is one that was in the way.
type blockerRow struct {
	authority.Blocker
	Who            string
	Since0, Until0 moment
}

func (c *Console) readChange(ctx context.Context, q url.Values) (v any, err error) {
	id, err := rail.ParseUUID(q.Get("of"))
	if err != nil {
		return nil, wrongf("of=: %w", err)
	}
	err = c.snapshot(ctx, func(tx pgx.Tx, x moments) error {
		v, err = newChangeView(ctx, tx, x, id)
		return gone(err)
	})
	return v, err
}

func newChangeView(ctx context.Context, db pg.DB, x moments, id rail.UUID) (v changeView, err error) {
	v.At = x.of(x.now)
	if v.Change, err = authority.ChangeOf(ctx, db, id); err != nil {
		return v, err
	}
	if err := v.place(ctx, db, x); err != nil {
		return v, err
	}
	v.Steps, v.Pause, v.Window = changeSteps(x, v.Change), newPause(x, v.Change), openWindow(x, v.Change)
	v.planned()
	v.blockers(x)
	reports, err := authority.Reports(ctx, db, id)
	if err != nil {
		return v, err
	}
	for _, r := range reports[:min(len(reports), mostReports)] {
		v.Reports = append(v.Reports, newReportRow(x, r))
	}
	return v, v.wayBack(ctx, db)
}

// place says where the scope stands, and what is safe next.
func (v *changeView) place(ctx context.Context, db pg.DB, x moments) error {
	d, err := authority.Doctor(ctx, db, v.Change.Scope)
	if err != nil {
		return err
	}
	v.Holds, v.Next = holdRows(x, d.Holds), nextStep{d.Next, d.Why}
	if d.Change != nil && d.Change.ID != v.Change.ID {
		v.Newest = d.Change.ID
	}
	if f := d.Fence; f != nil && f.State != "open" && f.Change == v.Change.ID {
		v.Deadline = x.maybe(f.Deadline)
	}
	return nil
}

// wayBack reads the conditions of an open way back.
func (v *changeView) wayBack(ctx context.Context, db pg.DB) (err error) {
	if v.Window.Known() {
		v.Conditions, err = authority.Conditions(ctx, db, v.Change.ID)
	}
	return err
}

// planned reads what was stored by the plan and by the comparison.
func (v *changeView) planned() {
	var plan struct {
		Relations []authority.Relation `json:"relations"`
	}
	v.PlanBad = json.Unmarshal(v.Change.Plan, &plan) != nil
	v.Relations = plan.Relations
	if s := string(v.Change.Shadow); s != "" && s != "null" && s != "{}" {
		v.ShadowBad = json.Unmarshal(v.Change.Shadow, &v.Shadow) != nil
	}
}

func (v *changeView) blockers(x moments) {
	v.MoreBlockers = max(0, len(v.Change.Blockers)-mostBlockers)
	for _, b := range v.Change.Blockers[:len(v.Change.Blockers)-v.MoreBlockers] {
		v.Blockers = append(v.Blockers, blockerRow{
			Blocker: b, Who: cmp.Or(b.GID, b.Application, b.Run, b.Role), Since0: parsed(x, b.Since), Until0: parsed(x, b.Until),
		})
	}
}

// parsed is an instant as the server writes it into JSON.
func parsed(x moments, text string) moment {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return moment{}
	}
	return x.of(t)
}

func newReportRow(x moments, r authority.Report) reportRow {
	row := reportRow{
		ID: r.ID, Matters: r.Matters, FinalSequence: r.FinalSequence, Made: x.of(r.MadeAt), Passed: r.Passed, Took: pauseText(&r.Took),
		Digest: hex.EncodeToString(r.Digest), More: max(0, len(r.Findings)-mostFindings),
	}
	for _, f := range r.Findings[:len(r.Findings)-row.More] {
		found := findingRow{Check: f.Check, Detail: f.Detail}
		firm, badFirm := rail.ParseUUID(f.Firm)
		matter, badMatter := rail.ParseUUID(f.Matter)
		if badFirm == nil && badMatter == nil {
			found.Key = rail.Key{Firm: firm, Matter: matter}
		}
		row.Findings = append(row.Findings, found)
	}
	return row
}

// changeSteps are the phases in their order. Of an aborted change only those that it
// reached, and its end.
func changeSteps(x moments, ch authority.Change) (steps []changeStep) {
	all := everyStep(x, ch)
	at := slices.IndexFunc(all, func(s changeStep) bool { return s.Name == ch.Phase })
	for i, s := range all {
		if ch.ClosedAt != nil && s.At.Known() && s.At.At.After(*ch.ClosedAt) && i <= at {
			d := s.At.At.Sub(*ch.ClosedAt)
			s.After = pauseText(&d)
		}
		switch {
		case i == at && s.Name == "aborted":
			s.Look = "bad"
		case s.Name == "aborted":
			continue
		case i == at:
			s.Look = "now"
		case ch.Phase == "aborted" && !s.reached(ch):
			continue
		case i < at:
			s.Look = "done"
		default:
			s.Look = "ahead"
		}
		steps = append(steps, s)
	}
	return steps
}

// reached reports whether a change that was aborted had come to this step.
func (s changeStep) reached(ch authority.Change) bool {
	return s.At.Known() || (s.Name == "shadowed" && (len(ch.Shadow) > 0 || ch.ClosedAt != nil))
}

func everyStep(x moments, ch authority.Change) []changeStep {
	final, epoch := "no commit is open", "open to the new writer"
	if ch.FinalSequence != nil {
		final += fmt.Sprintf("; the final sequence is %d", *ch.FinalSequence)
	}
	if ch.ToEpoch != nil {
		epoch += fmt.Sprintf(", under epoch %d", *ch.ToEpoch)
	}
	return []changeStep{
		{Name: "planned", About: "nothing was found that forbids it", At: x.of(ch.PlannedAt)},
		{Name: "shadowed", About: "both sides were compared"},
		{Name: "closing", About: "nobody new is let in", At: x.maybe(ch.ClosedAt)},
		{Name: "drained", About: "those who were in have finished, or had their time", At: x.maybe(ch.DrainedAt)},
		{Name: "sealed", About: final, At: x.maybe(ch.SealedAt)},
		{Name: "verified", About: "the whole scope was looked at", At: x.maybe(ch.VerifiedAt)},
		{Name: "advanced", About: epoch, At: x.maybe(ch.AdvancedAt)},
		{Name: "completed", About: "no way back is open", At: x.maybe(ch.CompletedAt)},
		{Name: "retired", About: "nothing of the old writer is needed", At: x.maybe(ch.RetiredAt)},
		{Name: "aborted", About: "the scope is its writer's as before, under the same epoch", At: x.maybe(ch.AbortedAt)},
	}
}
