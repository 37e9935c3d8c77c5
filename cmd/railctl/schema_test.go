package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge/awsfake"
)

// Scripts rely on railctl/1: no field goes, none changes its type. A field that is
// new is written into the file with RAIL_TEST_UPDATE=1.
func TestMachineReadableFieldsAreStable(t *testing.T) {
	r := newRig(t)
	var fields []string
	for _, args := range everyKind(r) {
		out := r.ctl(append(args, "-o", "json")...).out
		var e struct {
			Schema, Kind string
			Data         any
		}
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%v: %v in %q", args, err, out)
		}
		fields = append(fields, paths(e.Schema+" "+e.Kind, e.Data)...)
	}
	slices.Sort(fields)
	got := strings.Join(slices.Compact(fields), "\n") + "\n"
	file := filepath.Join("testdata", "fields.txt")
	if os.Getenv("RAIL_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// everyKind calls whatever prints data, on a ledger in which most fields are set.
func everyKind(r *rig) [][]string {
	event, key := r.zombie()
	running, queued, parked := r.one(), r.one(), r.one()
	c := r.claim(running)
	r.ok("matter", "demand", running.String(), "--reason", "x")
	r.ok("matter", "park", parked.String(), "--reason", "x")
	r.handBack(queued)
	r.ok("dispatch", "pause", queued.Firm.String(), "--reason", "x")
	w := newWay(r, awsfake.Layout{Receives: 1})
	w.bury("not a nudge", unknownNudge())
	dry := []string{"--dry-run"}
	return [][]string{
		{"status"},
		{"explain", key},
		{"explain", event},
		{"explain", running.String()},
		{"explain", queued.String()},
		{"matter", "list"},
		{"matter", "show", key, "--show-content"},
		{"matter", "show", running.String()},
		{"matter", "show", parked.String()},
		append([]string{"matter", "demand", key}, dry...), append([]string{"matter", "demand", "--all"}, dry...),
		append([]string{"matter", "park", queued.String()}, dry...), append([]string{"matter", "park", "--all"}, dry...),
		append([]string{"matter", "unpark", parked.String()}, dry...), append([]string{"matter", "unpark", "--all"}, dry...),
		append([]string{"matter", "cancel", running.String()}, dry...), append([]string{"matter", "purge", key}, dry...),
		append([]string{"dispatch", "pause", "--all"}, dry...), append([]string{"dispatch", "resume", "--all"}, dry...),
		{"dispatch", "list"},
		{"runs", "list"},
		{"runs", "show", c.Token.Run.String()},
		{"outbox", "list"},
		{"outbox", "publishing"},
		{"outbox", "drain", "--received", "--timeout", "1ms"},
		{"outbox", "parked"},
		append([]string{"outbox", "replay", r.parkFact().String()}, dry...),
		{"dlq", "list"},
		append([]string{"dlq", "redrive"}, dry...),
		{"dlq", "redrive", "--yes", "--reason", "x"},
		append([]string{"outbox", "redecide", "--verdict", "ignored", "--since", "1h", "--all"}, dry...),
		append([]string{"epoch", "bump", "--since", "1h"}, dry...),
		{"restore-check"},
		{"audit", "list"},
		{"check"},
		{"doctor"},
		{"wait", key},
		{"wait", parked.String()},
		{"migrate", "status"},
		{"migrate", "up"},
		{"config", "show"},
		{"config", "validate"},
		{"version"},
		{"model", "list"},
		{"model", "check"},
		{"model", "check", "--model", "router", "--without", "fence"},
		{"model", "trace", "--model", "router", "--without", "fence"},
		{"model", "walk", "--model", "batch", "--property", "a flagged record is processed"},
		{"model", "schedules", "--model", "batch"},
	}
}

// paths lists every field below a value with the type that it has.
func paths(at string, v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			out = append(out, paths(at+"."+name, x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, paths(at+"[]", x)...)
		}
	case nil: // the type shows where the field is set
	default:
		out = append(out, fmt.Sprintf("%s %T", at, v))
	}
	return out
}
