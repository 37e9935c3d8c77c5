package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

func same(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), plain(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusForPeople(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	firm := rail.NewUUID()
	r.claim(r.queued(firm, 1)[0])
	r.queued(firm, 1)
	r.ok("dispatch", "pause", k.Firm.String(), "--reason", "audit of the firm")
	same(t, `
Jobs  1 current, 1 queued, 1 running, 0 parked
Oldest owed  TIME (AGE)  #1/#2
Oldest running  TIME (AGE)  #1/#2
Undecided facts  1  TIME (AGE)
Canary landed  -
Ledger  epoch 1, schema N, publishing none

FIRM  QUEUED  RUNNING  PARKED  OLDEST OWED
#1  1  1  0  TIME (AGE)

DISPATCH PAUSED  SINCE  BY  BECAUSE
#3  TIME (AGE)  WHO  audit of the firm
`, regexp.MustCompile(`schema \d+`).ReplaceAllString(who(r.ok("status")), "schema N"))
}

// who hides the name of the machine.
func who(text string) string {
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "ada@") {
			text = strings.ReplaceAll(text, word, "WHO")
		}
	}
	return text
}

func TestMatterForPeople(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	r.claim(k)
	r.ok("matter", "demand", k.String(), "--reason", "asked again")
	same(t, `
Matter  #1/#2
Brief  stale since TIME (AGE)
State  running
Generations  requested 3, claimed 2, landed 1
Priority  standard
Attempts  1
Demands owed  1
Run  #3
Claimed  TIME (AGE)
Lease ends  TIME (AGE)
Asked again  TIME (AGE)

FRAME  BUILT  BUILDER  SCHEMA  STORED  RUN
1  TIME (AGE)  b1  brief/1  61 B  #4
`, r.ok("matter", "show", k.String()))
}

// No text of a document leaves the ledger unless it is asked for.
func TestContentIsShownOnlyOnRequest(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	for _, form := range formats() {
		for _, args := range [][]string{{"matter", "show", k.String()}, {"explain", k.String()}, {"status"}, {"runs", "list"}} {
			if out := r.ok(append(args, "-o", form)...); strings.Contains(out, "document text") {
				t.Errorf("%v -o %s shows content:\n%s", args, form, out)
			}
		}
	}
	m := decode[matterShown](r, "matter.show", "matter", "show", k.String(), "--show-content")
	if !strings.Contains(string(m.Content), "document text") {
		t.Errorf("content %s", m.Content)
	}
	if out := r.ok("matter", "show", k.String(), "--show-content"); !strings.Contains(out, "document text") {
		t.Errorf("no content in\n%s", out)
	}
}

func TestListsInEveryForm(t *testing.T) {
	r := newRig(t)
	k := r.one()
	c := r.claim(k)
	r.land(c, "b1")
	event := r.fact(k, "document.uploaded")
	r.ok("matter", "park", r.one().String(), "--reason", "x")
	for _, x := range []struct {
		name string
		args []string
	}{
		{c.Token.Run.String() + "\n", []string{"runs", "list", "--matter", k.String()}},
		{c.Token.Run.String() + "\n", []string{"runs", "show", c.Token.Run.String()}},
		{event.String() + "\n", []string{"outbox", "list", "--name", "document.uploaded", "--matter", k.Matter.String(), "--undecided"}},
		{k.String() + "\n", []string{"matter", "show", k.Matter.String()}},
		{"1\n", []string{"audit", "list"}},
		{k.String() + "\n", []string{"matter", "list", "--firm", k.Firm.String()}},
		{"", []string{"dispatch", "list"}},
		{"", []string{"check"}},
		{"none\n", []string{"outbox", "publishing"}},
		{"dev\n", []string{"version"}},
	} {
		if got := r.ok(append(x.args, "-o", "name")...); got != x.name {
			t.Errorf("%v -o name: %q, want %q", x.args, got, x.name)
		}
		var fromJSON, fromYAML any
		if err := json.Unmarshal([]byte(r.ok(append(x.args, "-o", "json")...)), &fromJSON); err != nil {
			t.Errorf("%v: %v", x.args, err)
		}
		out := r.ok(append(x.args, "-o", "yaml")...)
		if err := yaml.Unmarshal([]byte(out), &fromYAML); err != nil || !strings.HasPrefix(out, "schema: railctl/1\nkind: ") {
			t.Errorf("%v: %v in\n%s", x.args, err, out)
		}
		if table := r.ok(x.args...); table == "" || strings.Contains(table, "\x1b") {
			t.Errorf("%v: %q", x.args, table)
		}
	}
}

func TestEmptyListsAreLists(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{"runs", "list"}, {"outbox", "list"}, {"audit", "list"}, {"dispatch", "list"}} {
		if out := r.ok(append(args, "-o", "json")...); !strings.Contains(out, `"data": []`) {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// What a builder or an operator wrote cannot take over the reader's terminal.
func TestControlCharactersStayOutOfTheTable(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.ok("matter", "park", k.String(), "--reason", "red \x1b[31m alert\r\nnext \u202egnp.exe\u2066\u200f")
	for _, args := range [][]string{{"matter", "show", k.String()}, {"audit", "list"}, {"explain", k.String()}} {
		if out := r.ok(args...); strings.ContainsAny(out, "\x1b\r\u202e\u2066\u200f") || !strings.Contains(out, "alert") {
			t.Errorf("%v: %q", args, out)
		}
	}
}

func TestCheckNamesWhatIsBroken(t *testing.T) {
	r := newRig(t)
	r.claim(r.one())
	r.exec(`UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '2 hours', lease_expires_at = clock_timestamp() - interval '1 hour'`)
	got := r.ctl("check", "-o", "json")
	var e struct {
		Data struct {
			Healthy  bool
			Findings []audit.Finding
		}
	}
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || e.Data.Healthy || len(e.Data.Findings) < 8 {
		t.Fatalf("%v in %s", err, got.out)
	}
	if table := r.ctl("check"); !strings.Contains(table.out, "BROKEN") || table.code != exitUnhealthy {
		t.Errorf("exit %d\n%s", table.code, table.out)
	}
}

func TestDoctorLooks(t *testing.T) {
	r := newRig(t)
	got := r.ctl("doctor")
	if !strings.HasPrefix(got.out, "CHECK") || !strings.Contains(got.out, "schema_version") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for _, c := range []struct {
		states []audit.State
		want   int
	}{
		{[]audit.State{audit.OK, audit.Warn}, exitOK},
		{[]audit.State{audit.OK, audit.Fail, audit.Unknown}, exitUnhealthy},
		{[]audit.State{audit.Unknown}, exitError},
	} {
		var found []audit.Diagnosis
		for _, s := range c.states {
			found = append(found, audit.Diagnosis{State: s})
		}
		if code := (&app{}).code(t.Context(), prognosis(found)); prognosis(found) != nil && code != c.want {
			t.Errorf("%v: exit %d, want %d", c.states, code, c.want)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"now": 300 * time.Millisecond, "5s ago": 5 * time.Second, "3m05s ago": 185 * time.Second, "in 42s": -42 * time.Second,
		"75m ago": 75 * time.Minute, "26h ago": 26 * time.Hour, "9d ago": 9 * 24 * time.Hour,
	} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestAnIdleMatterHasNoPriority(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	if out := plain(r.ok("matter", "show", k.String())); !strings.Contains(out, "Priority  -\n") {
		t.Errorf("%s", out)
	}
}

func TestParkedMattersAreListed(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.landed("b1")
	r.ok("matter", "park", k.String(), "--reason", "court order: "+strings.Repeat("sealed ", 20))
	same(t, `
MATTER  STATE  OWED SINCE  TRIES  PARKED BY  PARKED  BECAUSE
#1/#2  parked  TIME  0  WHO  TIME  court order: sealed sealed sealed sealed sealed sealed seal…
`, who(r.ok("matter", "list", "--status", "parked")))
	got := decode[[]audit.MatterRow](r, "matter.list", "matter", "list", "--limit", "5")
	if len(got) != 2 || got[0].Key != k || !strings.HasPrefix(got[0].ParkedActor, "ada@") || got[0].ParkedSince == nil || got[1].Status != "idle" {
		t.Errorf("%+v", got)
	}
	if wide := r.ok("matter", "list", "-o", "wide"); !strings.Contains(wide, strings.Repeat(" sealed", 20)) {
		t.Errorf("%s", wide)
	}
}

// A list of attempts fits a terminal; identifiers that neighbours share a beginning
// with are told by their end.
func TestIdentifiersAreShortUnlessWide(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	run := value[rail.UUID](r, `SELECT run_id FROM ops.matter_frame_runs`)
	for line := range strings.Lines(r.ok("runs", "list")) {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if out := r.ok("runs", "list"); !strings.Contains(out, run.String()[:8]+" ") || strings.Contains(out, run.String()) {
		t.Errorf("%s", out)
	}
	if out := r.ok("runs", "list", "-o", "wide"); !strings.Contains(out, run.String()) || !strings.Contains(out, k.String()) {
		t.Errorf("%s", out)
	}
	p := newPage(&strings.Builder{}, time.Now())
	v7, err := rail.ParseUUID("01987654-3210-7abc-8def-0123456789ab")
	if err != nil || p.id(v7) != "…456789ab" || p.id(rail.UUID{}) != "" {
		t.Errorf("%q, %v", p.id(v7), err)
	}
}

// What workers hold against the builder is told by whatever asks why nothing is
// built.
func TestABuilderAtFaultIsTold(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.handBack(k)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"AT FAULT: 1 claim handed back", []string{"status"}},
		{"because the builder is at fault", []string{"explain", k.String()}},
		{"builder.http.token_file", []string{"doctor"}},
	} {
		if got := r.ctl(c.args...); !strings.Contains(got.out, c.says) {
			t.Errorf("%v: no %q in\n%s", c.args, c.says, got.out)
		}
	}
}

func TestPauseTellsWhatItHolds(t *testing.T) {
	r := newRig(t)
	firm := rail.NewUUID()
	keys := r.queued(firm, 3)
	r.claim(keys[0])
	r.one()
	if out := r.ok("dispatch", "pause", firm.String(), "--dry-run"); !strings.Contains(out, "2 queued matter(s) are held back, 1 running build(s) go on") {
		t.Errorf("%s", out)
	}
	got := decode[paused](r, "dispatch.pause", "dispatch", "pause", "--all", "--dry-run")
	if got.Queued != 3 || got.Running != 1 || !got.DryRun || !got.Changed {
		t.Errorf("%+v", got)
	}
}

func TestParkAndCancelSayHowTheyDiffer(t *testing.T) {
	t.Parallel()
	park, cancel := call(t, nil, "matter", "park", "--help").out, call(t, nil, "matter", "cancel", "--help").out
	if !strings.Contains(cancel, `"park" under another name`) || strings.Contains(cancel, parkHelp) || !strings.Contains(park, parkHelp) {
		t.Errorf("%s\n%s", park, cancel)
	}
}

func TestAMisspeltFactIsToldItsRule(t *testing.T) {
	r := newRig(t)
	event := r.fact(newKey(), "document.uploadd")
	r.decide()
	out := r.ok("explain", event.String())
	for _, want := range []string{"no rule of the trigger names document.uploadd", "name document.uploaded: did the producer mean that?"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The driver tries a server with TLS and without, and tells both refusals.
func TestOneRefusalIsToldOnce(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, env: []string{"RAIL_DATABASE_URL=postgres://rail@127.0.0.1:1/none"}}
	if got := r.ctl("status"); got.code != exitError || strings.Count(got.err, "connection refused") != 1 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
