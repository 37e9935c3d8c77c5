package main

import (
	"encoding/json"
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
Ledger  epoch 1, schema 8, publishing none

FIRM  QUEUED  RUNNING  PARKED  OLDEST OWED
#1  1  1  0  TIME (AGE)

DISPATCH PAUSED  SINCE  BY  BECAUSE
#3  TIME (AGE)  WHO  audit of the firm
`, who(r.ok("status")))
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
	r.ok("matter", "park", k.String(), "--reason", "red \x1b[31m alert\r\nnext")
	for _, args := range [][]string{{"matter", "show", k.String()}, {"audit", "list"}, {"explain", k.String()}} {
		if out := r.ok(args...); strings.ContainsAny(out, "\x1b\r") || !strings.Contains(out, "alert") {
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
