package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// mostEntries of a timeline, and mostRuns of a matter, are shown: the latest.
const (
	mostEntries = 150
	mostRuns    = 40
)

// matterView is one matter.
type matterView struct {
	Key       rail.Key
	At        moment `json:"-"`
	Ticket    *ticket
	Now       []string
	Next      string
	Entries   []entryRow
	Truncated bool
	Strip     strip
	Runs      []runRow
	Frames    []frameRow
	Acts      []deed // what may be done in the state it is in
}

type entryRow struct {
	At         moment
	Kind, Text string
}

type runRow struct {
	Run        rail.UUID
	Key        rail.Key
	Generation int64
	Attempt    int
	Worker     string
	Builder    string
	Started    moment
	Took       string // "" while it runs
	Outcome    string
	Error      string
	Late       moment
}

type frameRow struct {
	Generation      int64
	Digest, Schema  string
	Builder         string
	Bytes           int64
	Built           moment
	Run             rail.UUID
	Current, Newest bool
}

// deed is an act that the state of a matter allows.
type deed struct{ Verb, Label, About string }

func (c *Console) readMatter(ctx context.Context, q url.Values) (any, error) {
	k, err := rail.ParseKey(q.Get("of"))
	if err != nil {
		return nil, wrongf("of=: %w", err)
	}
	e, err := audit.Explain(ctx, c.opts.DB, k, mostEntries)
	if err != nil {
		return nil, err
	}
	runs, err := audit.Runs(ctx, c.opts.DB, audit.RunFilter{Firm: k.Firm, Matter: k.Matter, Limit: mostRuns})
	if err != nil {
		return nil, err
	}
	kept, err := audit.Frames(ctx, c.opts.DB, k)
	if err != nil {
		return nil, err
	}
	if e.Job == nil && len(e.Timeline) == 0 {
		return nil, errGone
	}
	return newMatterView(e, runs, kept), nil
}

func newMatterView(e audit.Explanation, runs []audit.RunRow, kept []audit.FrameRow) matterView {
	x := moments{e.At}
	v := matterView{Key: e.Key, At: x.of(e.At), Now: e.Now, Next: e.Next, Truncated: e.Truncated, Strip: newStrip(e, runs), Acts: deeds(e.Job)}
	if e.Job != nil {
		v.Ticket = newTicket(x, *e.Job, runs)
	}
	for _, n := range e.Timeline {
		v.Entries = append(v.Entries, entryRow{x.of(n.At), string(n.Kind), n.Text})
	}
	for _, r := range runs {
		v.Runs = append(v.Runs, newRunRow(x, r))
	}
	for i, f := range kept {
		v.Frames = append(v.Frames, frameRow{
			Generation: f.Generation, Digest: f.Digest, Schema: f.SchemaVersion, Builder: f.BuilderVersion, Bytes: f.Bytes,
			Built: x.of(f.BuiltAt), Run: f.RunID, Current: e.Job != nil && e.Job.Landed == f.Generation, Newest: i == 0,
		})
	}
	return v
}

func newRunRow(x moments, r audit.RunRow) runRow {
	row := runRow{
		Run: r.RunID, Key: r.Key, Generation: r.Generation, Attempt: r.Attempt, Worker: r.Worker, Builder: r.Builder,
		Started: x.of(r.StartedAt), Outcome: r.Outcome, Late: x.maybe(r.LateWriteAt), Error: r.ErrorKind,
	}
	if r.FinishedAt != nil {
		row.Took = span(r.FinishedAt.Sub(r.StartedAt))
	}
	if r.ErrorText != "" {
		row.Error += ": " + r.ErrorText
	}
	return row
}

// deeds are the acts that the state of a job allows.
func deeds(j *audit.JobRow) []deed {
	demand := deed{"demand", "Demand a build", "Records one demand, ahead of bulk work, without settling."}
	switch {
	case j == nil:
		return []deed{demand}
	case j.Status == "parked":
		return []deed{{"unpark", "Unpark", "Queues it at once, its attempts forgotten."}, demand}
	case j.Status == "running":
		return []deed{demand, {"cancel", "Cancel the build", "Fences the build that runs and parks the matter until it is unparked."}}
	case j.Status == "queued":
		return []deed{demand, {"park", "Park", "Stops it until it is unparked; demand is still recorded."}}
	}
	return []deed{demand}
}

// ticket is the row of a matter, drawn.
type ticket struct {
	Status  string
	Since   moment // in this state, where the row tells
	Cells   []cell
	Punches []punch
}

type cell struct {
	Name, Value string
	At          moment
}

// punch is one generation of the row.
type punch struct {
	N          int64
	What, Look string
}

// mostPunches is how many generations are drawn, the latest.
const mostPunches = 12

func newTicket(x moments, j audit.JobRow, runs []audit.RunRow) *ticket {
	t := &ticket{Status: j.Status, Punches: punches(j, runs)}
	add := func(name, format string, args ...any) {
		t.Cells = append(t.Cells, cell{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	when := func(name string, at *time.Time) {
		if at != nil {
			t.Cells = append(t.Cells, cell{Name: name, At: x.of(*at)})
		}
	}
	add("generations", "requested %d, claimed %d, landed %d", j.Requested, j.Claimed, j.Landed)
	add("demands owed", "%d", j.DemandsOwed)
	add("attempts", "%d", j.Attempts)
	when("owed since", j.OwedSince)
	switch j.Status {
	case "queued":
		add("priority", "%s", rail.Priority(j.Priority))
		when("queued", j.QueuedAt)
		when("not before", j.NotBefore)
	case "running":
		when("claimed", j.ClaimedAt)
		when("lease ends", j.LeaseExpiresAt)
		when("asked again", j.RebuildSince)
	case "parked":
		when("parked", j.QueuedAt)
		add("parked by", "%s", j.ParkedBy)
		add("because", "%s", j.ParkedReason)
	}
	if j.LastError != "" && j.LastError != j.ParkedReason {
		add("last error", "%s", j.LastError)
	}
	return t
}

// punches are the latest generations, each with what became of it.
func punches(j audit.JobRow, runs []audit.RunRow) []punch {
	ended := map[int64]string{}
	for _, r := range runs {
		ended[r.Generation] = r.Outcome
	}
	var out []punch
	for n := max(1, j.Requested-mostPunches+1); n <= j.Requested; n++ {
		p := punch{N: n, What: ended[n]}
		switch {
		case p.What == "" && n <= j.Landed:
			p.What, p.Look = "covered", "landed"
		case p.What == "":
			p.What = "owed"
		case p.What == "landed":
			p.Look = "landed"
		case p.What == "running":
			p.Look = "claimed"
		default:
			p.Look = "ended"
		}
		out = append(out, p)
	}
	return out
}

// contentView is the newest frame of a matter with what is in it.
type contentView struct {
	Key        rail.Key
	Generation int64
	Content    string
	Cut        bool
}

// mostContent is how much of a frame is shown, in bytes.
const mostContent = 256 << 10

func (c *Console) readContent(ctx context.Context, q url.Values) (any, error) {
	if !c.opts.ShowContent {
		return nil, wrongf("the content of frames quotes documents, and this console was started without --show-content")
	}
	k, err := rail.ParseKey(q.Get("of"))
	if err != nil {
		return nil, wrongf("of=: %w", err)
	}
	f, ok, err := frames.Current(ctx, c.opts.DB, k)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errGone
	}
	v := contentView{Key: k, Generation: f.Generation, Cut: len(f.JSON) > mostContent}
	v.Content = plain(string(f.JSON[:min(len(f.JSON), mostContent)]))
	return v, nil
}

// find leads from what somebody typed to the matter that is meant.
func (c *Console) find(w http.ResponseWriter, r *http.Request) {
	q, err := place{fields: []string{"matter"}}.parse(r.URL.RawQuery)
	if err != nil {
		c.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	keys, err := c.meant(r.Context(), q.Get("matter"))
	switch {
	case err != nil:
		c.failed(w, r, err)
	case len(keys) == 1:
		redirect(w, "matter?of="+url.QueryEscape(keys[0].String()))
	default:
		c.write(w, r, http.StatusOK, "which", frame{Title: "Which one?", Page: "-", View: keys})
	}
}

// meant are the matters that a text may mean: a key, or a matter's UUID alone.
func (c *Console) meant(ctx context.Context, text string) ([]rail.Key, error) {
	text = clip(100, text)
	if k, err := rail.ParseKey(text); err == nil {
		return []rail.Key{k}, nil
	}
	id, err := rail.ParseUUID(text)
	if err != nil {
		return nil, wrong{errors.New("that is no matter: give FIRM_UUID/MATTER_UUID, or the matter's UUID alone")}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	keys, err := audit.FindMatter(ctx, c.opts.DB, id)
	if err == nil && len(keys) == 0 {
		err = errGone
	}
	return keys, err
}
