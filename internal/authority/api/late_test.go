package api_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"briefrail/internal/authority"
)

// A submission was admitted, hangs longer than the grace, and its scope is sealed or
// gone when it would commit: nothing of it stays, and the answer says where to go.
func TestASubmissionThatComesTooLate(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]bool{"sealed": false, "advanced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, i := newRig(t), anIntent()
			r.old(t, "old-house", "http://old.example")
			r.land(t)
			r.fence(t, "rail")
			before := r.executed(t)
			release := r.holdMatter(t)
			answer := make(chan reply, 1)
			go func() { answer <- r.post(t, forFirm, i) }()
			eventually(t, "the submission waits for the matter", func() bool {
				return r.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%submit_intent%'`) > 0
			})
			change := r.close(t, "old-house")
			r.verb(t, r.control.Drain, change)
			r.verb(t, r.control.Seal, change)
			if moved {
				r.exec(t, `SELECT ops.report_change($1, 1, sha256('x'), '[]', '1 ms')`, change)
				r.verb(t, r.control.Advance, change)
			}
			release()
			if a := <-answer; moved {
				a.problem(t, http.StatusConflict, "authority-epoch-changed")
				a.announces(t, 2, 1)
			} else {
				a.problem(t, http.StatusServiceUnavailable, "authority-closing")
			}
			r.get(t, forFirm, "/v1/intents/"+i.ID).problem(t, http.StatusNotFound, "no-receipt")
			r.executes(t, before)
			if c, err := authority.ChangeOf(t.Context(), r.db.Pool, change); err != nil || len(c.Blockers) == 0 {
				t.Errorf("nobody is named as in the way: %+v, %v", c, err)
			}
		})
	}
}

// holdMatter locks the row of the matter, as whoever works on it would.
func (r *rig) holdMatter(t *testing.T) (release func()) {
	t.Helper()
	tx, err := r.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs WHERE matter_id = $1 FOR UPDATE`, r.key.Matter); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback(t.Context()) }
}

// eventually fails the test unless something comes true. It is asked often.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !yes(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// The protocol names every type of problem that the code has, and no other.
func TestEveryProblemIsDocumented(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`problem\(\w+, "([a-z-]+)", http\.Status`)
	inCode := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			inCode[m[1]] = true
		}
	}
	doc, err := os.ReadFile("../../../docs/INTENTS.md")
	if err != nil || len(inCode) < 10 {
		t.Fatalf("%d types are found, %v", len(inCode), err)
	}
	_, table, _ := strings.Cut(string(doc), "\n## Answers\n")
	inDoc := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [45][^|]*\|`).FindAllString(table, -1) {
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row, -1) {
			inDoc[m[1]] = true
		}
	}
	if !maps.Equal(inCode, inDoc) {
		t.Errorf("docs/INTENTS.md has %v, the code %v", slices.Sorted(maps.Keys(inDoc)), slices.Sorted(maps.Keys(inCode)))
	}
}
