package specs

import (
	"slices"
	"testing"

	"briefrail/internal/model"
)

// What a step makes possible is missed where the step never happens, and nothing
// else that must be possible is forgotten here.
func TestCrippledRelay(t *testing.T) {
	t.Parallel()
	only := func(kinds ...relayKind) func(relayState, relayAct) bool {
		return func(_ relayState, a relayAct) bool { return slices.Contains(kinds, a.Kind) }
	}
	missed := map[string]bool{}
	for _, row := range []struct {
		never  string
		lost   func(from relayState, a relayAct) bool
		misses string
	}{
		{"a commit", only(relayCommits), "every fact is demanded, and published or parked"},
		{"a take-over", func(s relayState, a relayAct) bool { return a.Kind == relayTakes && s.Lease.Holder != Nobody }, "every fact is demanded, and published or parked"},
		{"the end of a dead relay's lease", only(relayLapses), "every fact is demanded, and published or parked"},
		{"a mark", only(relayMarks), "every fact is demanded and published"},
		{"a receipt by nudge", only(consumerReceives), "a nudge brings the demand"},
		{"a sweep", only(consumerSweeps), "the sweep decides what the bus has taken"},
		{"a second copy", func(s relayState, a relayAct) bool {
			return a.Kind == consumerDecides && a.Fact < maxFacts && s.Receipts&factOf(int(a.Fact)) != 0
		}, "a duplicate demands nothing"},
		{"a forged nudge", only(queueIsForged), "a forged nudge is left for the dead letters"},
		{"a pause", only(relayPauses), "a mark is refused"},
		{"a refused mark", only(relayMarkFenced), "a mark is refused"},
		{"a second sending", func(s relayState, a relayAct) bool {
			return a.Kind <= relayUnheard && a.Kind >= relaySends && s.Accepted&s.Relays[a.Who].Hand != 0
		}, "a fact is sent twice"},
		{"a refusal for good", only(relayEntryFinal), "a fact is parked"},
	} {
		broken := crippledRelay(t, row.lost)
		if !slices.Contains(broken, row.misses) {
			t.Errorf("never %s: %q holds all the same; broken: %q", row.never, row.misses, broken)
		}
		for _, name := range broken {
			missed[name] = true
		}
	}
	for _, p := range relayVariant().properties() {
		if p.Kind != model.Never && !missed[p.Name] {
			t.Errorf("%s %q holds whatever is taken away: it says nothing", p.Kind, p.Name)
		}
	}
}

func relayVariant() relayModel {
	return relayModel{
		relays: 2, facts: 1, faults: 1,
		sweep: true, receipts: true, lookUp: true, oneTransaction: true, epoch: true, markAfter: true, perEntry: true,
	}
}

// crippledRelay returns what does not hold where some steps never happen.
func crippledRelay(t *testing.T, lost func(relayState, relayAct) bool) (broken []string) {
	t.Helper()
	m := relayVariant().model()
	next := m.Next
	m.Next = func(s relayState, yield func(relayAct, relayState)) {
		next(s, func(a relayAct, to relayState) {
			if !lost(s, a) {
				yield(a, to)
			}
		})
	}
	g, err := model.Search(t.Context(), m, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Verdicts() {
		if !v.OK {
			broken = append(broken, v.Name)
		}
	}
	return broken
}
