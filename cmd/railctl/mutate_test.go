package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

// mutations are all changes that railctl can make, on a rig where each of them
// changes something.
func mutations(r *rig) [][]string {
	queued, another, running, parked, idle := r.one(), r.one(), r.one(), r.one(), r.landed("b1")
	r.claim(running)
	r.ok("matter", "park", parked.String(), "--reason", "seed")
	r.ok("dispatch", "pause", idle.Firm.String(), "--reason", "seed")
	r.fact(idle, "document.renamed")
	r.decide()
	r.parkFact()
	newWay(r, awsfake.Layout{})
	return [][]string{
		{"matter", "demand", idle.String()},
		{"matter", "demand", "--all", "--yes"},
		{"matter", "park", queued.String()},
		{"matter", "park", "--firm", another.Firm.String(), "--yes"},
		{"matter", "unpark", parked.String()},
		{"matter", "unpark", "--all", "--yes"},
		{"matter", "cancel", running.String()},
		{"matter", "purge", idle.String(), "--yes"},
		{"dispatch", "pause", queued.Firm.String()},
		{"dispatch", "pause", "--all", "--yes"},
		{"dispatch", "resume", idle.Firm.String()},
		{"outbox", "redecide", "--verdict", "ignored", "--since", "1h", "--all", "--yes"},
		{"outbox", "publishing", "required", "--yes"},
		{"outbox", "replay", r.parkFact().String()},
		{"outbox", "replay", "--all-parked", "--yes"},
		{"dlq", "redrive", "--yes"},
		{"epoch", "bump", "--since", "1h", "--yes"},
	}
}

func TestEveryChangeNeedsAReason(t *testing.T) {
	r := newRig(t)
	all := mutations(r)
	before := r.contents()
	for _, args := range all {
		for _, reason := range [][]string{nil, {"--reason", "  "}} {
			got := r.ctl(append(args, reason...)...)
			if got.code != exitUsage || !strings.Contains(got.err, "--reason") {
				t.Errorf("%v %q: exit %d: %s", args, reason, got.code, got.err)
			}
		}
	}
	if diff := cmp.Diff(before, r.contents()); diff != "" {
		t.Errorf("something changed: %s", diff)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	r := newRig(t)
	all := mutations(r)
	before := r.contents()
	for _, args := range all {
		out := r.ok(append(args, "--dry-run")...)
		if !strings.Contains(out, "would") {
			t.Errorf("%v says %q", args, out)
		}
		if diff := cmp.Diff(before, r.contents()); diff != "" {
			t.Fatalf("%v changed something: %s", args, diff)
		}
	}
}

func TestEveryChangeIsAudited(t *testing.T) {
	r := newRig(t)
	for _, args := range mutations(r) {
		before := value[int64](r, `SELECT count(*) FROM ops.audit_log`)
		r.ctl(append(args, "--reason", "because", "--actor", "grace@ship")...)
		action := args[0] + "." + args[1]
		if args[0] == "matter" && args[1] == "unpark" && args[2] == "--all" {
			continue // the one parked matter was unparked before
		}
		n := value[int64](r, `SELECT count(*) FROM ops.audit_log WHERE id > $1 AND actor = 'grace@ship' AND reason = 'because' AND action = $2`, before, action)
		if n == 0 {
			t.Errorf("%v left no audit row", args)
		}
	}
}

func TestActorIsThePersonByDefault(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.ok("matter", "park", k.String(), "--reason", "why not")
	if who := value[string](r, `SELECT actor FROM ops.audit_log`); !strings.HasPrefix(who, "ada@") {
		t.Errorf("actor %q", who)
	}
	r.env = append(r.env, "SUDO_USER=grace")
	r.ok("matter", "unpark", k.String(), "--reason", "why not")
	if who := value[string](r, `SELECT actor FROM ops.audit_log ORDER BY id DESC LIMIT 1`); !strings.HasPrefix(who, "grace@") {
		t.Errorf("actor %q", who)
	}
	acts := decode[[]act](r, "audit.list", "audit", "list", "--target", k.String())
	if len(acts) != 2 || acts[0].Action != "matter.unpark" || !strings.Contains(string(acts[0].Details), `"parked_by"`) {
		t.Errorf("acts %+v", acts)
	}
}

func TestFarReachingChangesWantAYes(t *testing.T) {
	r := newRig(t)
	k := r.one()
	newWay(r, awsfake.Layout{})
	for _, args := range [][]string{
		{"dlq", "redrive"},
		{"matter", "purge", k.String()},
		{"matter", "demand", "--all"},
		{"matter", "park", "--all"},
		{"dispatch", "pause", "--all"},
		{"epoch", "bump", "--since", "1h"},
		{"outbox", "publishing", "required"},
		{"outbox", "replay", "--all-parked"},
	} {
		got := r.ctl(append(args, "--reason", "x")...)
		if got.code != exitUsage || !strings.Contains(got.err, "--yes") {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	if s := r.status(k); s != "queued" {
		t.Errorf("matter is %s", s)
	}
}

func TestPersonAtTheTerminalIsAsked(t *testing.T) {
	r := newRig(t)
	k := r.one()
	for _, typed := range []string{"n\n", "", "yess\n"} {
		got := r.at(typed, "matter", "park", k.String(), "--reason", "x")
		if got.code != exitError || !strings.Contains(got.err, "Go on? [y/N]") || r.status(k) != "queued" {
			t.Errorf("typed %q: exit %d, %s", typed, got.code, got.err)
		}
	}
	if got := r.at("y\n", "matter", "park", k.String(), "--reason", "x"); got.code != exitOK || r.status(k) != "parked" {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
	if got := r.at("", "matter", "unpark", k.String(), "--reason", "x", "--yes"); got.code != exitOK || r.status(k) != "queued" {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
}

func TestCancelFencesTheRun(t *testing.T) {
	r := newRig(t)
	k := r.one()
	c := r.claim(k)
	got := decode[matterChange](r, "matter.cancel", "matter", "cancel", k.String(), "--reason", "wrong documents")
	want := matterChange{Key: k, Action: "matter.cancel", Was: "running", Now: "parked", Requested: c.Token.Generation}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o := value[string](r, `SELECT outcome FROM ops.matter_frame_runs WHERE run_id = $1`, c.Token.Run); o != "cancelled" {
		t.Errorf("run is %s", o)
	}
}

func TestDemandOfAnUnknownMatterWantsNew(t *testing.T) {
	r := newRig(t)
	k := newKey()
	r.ok("matter", "demand", k.String(), "--new", "--reason", "first build", "--priority", "bulk")
	if p := value[int](r, `SELECT priority FROM ops.matter_frame_jobs`); p != int(rail.Bulk) {
		t.Errorf("priority %d", p)
	}
	known := newKey()
	r.fact(known, "document.uploaded") // a fact is enough to be heard of
	r.ok("matter", "demand", known.Matter.String(), "--reason", "x")
	if s := r.status(known); s != "queued" {
		t.Errorf("status %s", s)
	}
}

func TestEpochBumpTellsWhatItFenced(t *testing.T) {
	r := newRig(t)
	r.claim(r.one())
	r.fact(newKey(), "document.uploaded")
	dry := decode[bumped](r, "epoch.bump", "epoch", "bump", "--since", "1h", "--dry-run")
	got := decode[bumped](r, "epoch.bump", "epoch", "bump", "--since", "1h", "--reason", "restored", "--yes")
	if dry.Bumped.Fenced != 1 || got.Epoch != 2 || got.Fenced != 1 || !dry.DryRun || got.DryRun {
		t.Errorf("dry %+v, then %+v", dry, got)
	}
}
