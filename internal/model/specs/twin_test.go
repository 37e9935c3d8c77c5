package specs_test

import (
	"slices"
	"testing"

	"briefrail/internal/model"
)

// twin is the router once more, written for the eye and not for speed, so that it
// can be spoiled in one place at a time. What a spoiled choice gives instead was
// measured beforehand: a figure here that does not move where it should says that
// the figures of the study could not tell the choices apart.
type twin struct {
	invocations, faults int
	idem, lease, fence  bool
	change              string
}

type twinState struct {
	status       string
	epoch        int
	expired      bool
	l2           int
	routed, left bool // has been ROUTED; has left it again
	budget       int
	pc           [4]string
	claim        [4]int
}

func (w twin) active(s twinState, who int) bool {
	return slices.Contains([]string{"claimed", "sent", "failed"}, s.pc[who])
}

func (w twin) holder(s twinState) int {
	for who := range w.invocations {
		if w.active(s, who) && s.claim[who] == s.epoch {
			return who
		}
	}
	return -1
}

// nobody reports whether the lease may run out for nothing.
func (w twin) nobody(s twinState) bool {
	if w.change != "free expiry waits for all" {
		return w.holder(s) < 0
	}
	for who := range w.invocations {
		if w.active(s, who) {
			return false
		}
	}
	return true
}

func (w twin) writes(s twinState, status string) twinState {
	s.left = s.left || (w.change == "final is having left" && s.status == "ROUTED" && status != "ROUTED")
	s.status = status
	s.routed = s.routed || (status == "ROUTED" && w.change != "final is having left")
	if status != "ROUTING" && w.change != "claims alone clear expired" {
		s.expired = false
	}
	return s
}

func (w twin) ends(s twinState, who int) twinState {
	s.pc[who] = "done"
	if w.change != "claim is kept" {
		s.claim[who] = 0
	}
	return s
}

// finishes is how an invocation stops after a mark or a reset, refused or not.
func (w twin) finishes(s twinState, who int) twinState {
	s = w.ends(s, who)
	if w.change == "finished is idle" {
		s.pc[who] = "idle"
	}
	return s
}

func (w twin) assigns(s twinState) twinState {
	s.l2++
	if w.idem {
		s.l2 = 1
	}
	if w.change == "L2 capped" {
		s.l2 = min(s.l2, 2)
	}
	return s
}

// at moves an invocation.
func at(s twinState, who int, pc string) twinState {
	s.pc[who] = pc
	return s
}

// rejected reports whether an active invocation's write is refused.
func (w twin) rejected(s twinState, who int) bool {
	if w.fence {
		return s.claim[who] != s.epoch
	}
	guarded := map[string]string{"mark only while ROUTING": "sent", "reset only while ROUTING": "failed"}[w.change]
	return guarded == s.pc[who] && s.status != "ROUTING"
}

// offer is one step of the twin.
type offer struct {
	label string
	to    twinState
}

func (w twin) next(s twinState, yield func(string, twinState)) {
	step := func(label string, to twinState) { yield(label, to) }
	fault := func(label string, to twinState) {
		if s.budget > 0 {
			to.budget = s.budget - 1
			yield(label, to)
		}
	}
	for who := range w.invocations {
		name := string(rune('A'+who)) + " "
		for _, o := range w.free(s, who) {
			step(name+o.label, o.to)
		}
		for _, o := range w.faulty(s, who) {
			fault(name+o.label, o.to)
		}
	}
	if !w.lease || s.status != "ROUTING" || s.expired {
		return
	}
	late := s
	late.expired = true
	switch holder := w.holder(s); {
	case w.nobody(s):
		if w.change != "a dead holder needs no expiry" {
			step("lease expires", late)
		}
	case w.change == "anybody may pause":
		for who := range w.invocations {
			if w.active(s, who) {
				fault(string(rune('A'+who))+" pauses", late)
			}
		}
	case holder < 0:
	case s.pc[holder] == "failed" && w.change == "no pause at failed":
	default:
		fault("holder pauses", late)
	}
}

// free are the steps of an invocation that cost nothing.
func (w twin) free(s twinState, who int) []offer {
	rejected := w.rejected(s, who)
	switch s.pc[who] {
	case "done", "crashed":
		if w.change == "no redelivery once ROUTED" && s.status == "ROUTED" {
			return nil
		}
		return []offer{{"redelivered", at(s, who, "idle")}}
	case "idle":
		return w.claims(s, who)
	case "claimed":
		return []offer{{"dispatches", at(w.assigns(s), who, "sent")}}
	case "sent":
		if rejected {
			return []offer{{"mark rejected", w.finishes(s, who)}}
		}
		return []offer{{"marks", w.finishes(w.writes(s, "ROUTED"), who)}}
	default: // failed
		if rejected {
			return []offer{{"reset rejected", w.finishes(s, who)}}
		}
		return []offer{{"resets", w.finishes(w.writes(s, "PENDING"), who)}}
	}
}

func (w twin) claims(s twinState, who int) []offer {
	late := s.expired || (w.change == "a dead holder needs no expiry" && w.holder(s) < 0)
	if s.status == "" || s.status == "PENDING" || (w.lease && s.status == "ROUTING" && late) {
		to := at(w.writes(s, "ROUTING"), who, "claimed")
		to.expired = false
		if w.lease || w.change != "epochs need a lease" {
			to.epoch++
		}
		to.claim[who] = to.epoch
		return []offer{{"claims", to}}
	}
	switch w.change {
	case "a failed claim is no step":
		return nil
	case "a failed claim stays idle":
		return []offer{{"exits", s}}
	}
	return []offer{{"exits", w.ends(s, who)}}
}

// faulty are the steps of an invocation that cost a fault.
func (w twin) faulty(s twinState, who int) []offer {
	rejected := w.rejected(s, who)
	crash := offer{"crashes", w.crashes(s, who)}
	switch s.pc[who] {
	case "claimed":
		return []offer{{"dispatch fails", at(s, who, "failed")}, {"times out", at(w.assigns(s), who, "failed")}, crash}
	case "sent":
		switch {
		case w.change == "a failed mark does not happen", rejected && w.change != "a rejected mark may fail":
			return []offer{crash}
		case w.change == "a failed mark stays sent":
			return []offer{{"mark fails", s}, crash}
		case w.change == "a failed mark ends":
			return []offer{{"mark fails", w.ends(s, who)}, crash}
		}
		return []offer{{"mark fails", at(s, who, "failed")}, crash}
	case "failed":
		switch w.change {
		case "no crash at failed":
			return nil
		case "a reset may fail":
			return []offer{{"reset fails", w.ends(s, who)}, crash}
		}
		return []offer{crash}
	case "idle":
		if w.change == "idle may crash" {
			return []offer{crash}
		}
	}
	return nil
}

func (w twin) crashes(s twinState, who int) twinState {
	held := w.holder(s) == who
	s = w.ends(s, who)
	switch w.change {
	case "crash goes to idle":
		s.pc[who] = "idle"
	case "crashed is not done":
		s.pc[who] = "crashed"
	case "a crash expires the lease":
		s.expired = s.expired || (w.lease && held && s.status == "ROUTING")
	}
	return s
}

func (w twin) search(t *testing.T) *model.Graph[twinState, string] {
	t.Helper()
	initial := twinState{budget: w.faults}
	for who := range w.invocations {
		initial.pc[who] = "idle"
	}
	g, err := model.Search(t.Context(), model.Model[twinState, string]{
		Name: "twin", Initial: initial, Next: w.next,
		Label: func(_ twinState, a string, _ twinState) string { return a },
		Properties: []model.Property[twinState]{
			{Name: "ROUTED is final", Kind: model.Never, At: func(s twinState) bool { return s.left || (s.routed && s.status != "ROUTED") }},
		},
	}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
