package containers

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The scenes share one stack, as starting one takes longer than most of them. Each leaves
// it as it was.
func TestRail(t *testing.T) {
	t.Parallel()
	s := start(t, quick())
	t.Run("story", func(t *testing.T) { story(s.on(t)) })
	t.Run("scrapes", func(t *testing.T) { scrapes(s.on(t)) })
	t.Run("stop", func(t *testing.T) { stopInMidBuild(s.on(t)) })
	t.Run("pause", func(t *testing.T) { pausedPastItsLease(s.on(t)) })
	t.Run("cut off from PostgreSQL", func(t *testing.T) { inTime(t); workerCutOff(s.on(t)) })
	t.Run("relay cut off from the queue", func(t *testing.T) { inTime(t); relayCutOff(s.on(t)) })
	t.Run("promise broken and parked", func(t *testing.T) { inTime(t); promiseBroken(s.on(t)) })
	t.Run("target absent", func(t *testing.T) { inTime(t); targetAbsent(s.on(t)) })
	t.Run("boards", func(t *testing.T) { boards(s.on(t)) })
}

// One up: documents are uploaded, the matter is stale and says why, and heals. Its
// one-shots say so themselves; the ledger says the same.
func story(s *stack) {
	k := key{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"}
	for _, shot := range []string{"story-1-upload", "story-2-stale", "story-3-heals", "story-4-current"} {
		eventually(s.t, patience, shot+" has ended", func() bool { return s.state(shot).Status == "exited" })
		if code := s.state(shot).ExitCode; code != 0 {
			s.t.Fatalf("%s ended with %d: %s", shot, code, docker(s.t, "logs", "--tail", "20", s.container(shot)))
		}
	}
	stale, healed := docker(s.t, "logs", s.container("story-2-stale")), docker(s.t, "logs", s.container("story-4-current"))
	s.t.Logf("stale:\n%s\n\nhealed:\n%s", stale, healed)
	if stale == healed {
		s.t.Error("the matter's account did not change")
	}
	s.current(time.Second, k)
	if n := one[int](s, `SELECT jsonb_array_length(frame -> 'documents') FROM ops.matter_frames WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT 1`, k.firm, k.matter); n != 3 {
		s.t.Errorf("the Brief holds %d of 3 documents", n)
	}
	if n := one[int](s, `SELECT count(*) FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r USING (event_id) WHERE o.firm_id = $1 AND o.event_name LIKE 'document.%' AND r.verdict = 'demanded'`, k.firm); n != 3 {
		s.t.Errorf("%d of 3 uploads became demand", n)
	}
	s.sound()
}

// Prometheus scrapes every daemon under the jobs that the rules name, and evaluates them.
func scrapes(s *stack) {
	for _, target := range []string{"worker-a:9464", "worker-b:9464", "relay:9465"} {
		eventually(s.t, patience, target+" is scraped", func() bool {
			up, known := s.value(fmt.Sprintf(`up{job=~"railworker|outbox-relay", instance=%q}`, target))
			return known && up == 1
		})
	}
	s.awaitAlert("RailDeadMansSwitch")
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := s.prometheus("/api/v1/rules", &rules); err != nil || len(rules.Data.Groups) == 0 {
		s.t.Fatalf("no rules: %v", err)
	}
	for _, g := range rules.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				s.t.Errorf("%s cannot be evaluated: %s", r.Name, r.LastError)
			}
		}
	}
	for _, silent := range []string{"RailTargetAbsent", "RailMatterParked", "RailInvariantViolated", "RailPromiseBroken", "RailOutboxAgeing"} {
		s.awaitClear(silent)
	}
}

// SIGTERM in mid-build: the claim is handed back uncharged, the other worker starts before
// the lease would have run out, and the container ends with 0, so within its grace.
func stopInMidBuild(s *stack) {
	k := newKey()
	s.tell(k)
	r := s.building(k)
	asked := time.Now()
	docker(s.t, "stop", "--time", "31", s.container(r.service())) // worker.stop_grace and 30 s; after that it is killed, with 137
	took := time.Since(asked)
	if st := s.state(r.service()); st.Status != "exited" || st.ExitCode != 0 {
		s.t.Errorf("%s is %s with %d after %s", r.service(), st.Status, st.ExitCode, took)
	}
	s.current(patience, k)
	all := s.runs(k)
	if len(all) != 2 || all[0].Outcome != "released" || all[0].Kind != "interrupted" || all[1].Outcome != "landed" || all[1].service() != r.other() || all[1].Attempt != all[0].Attempt {
		s.t.Fatalf("runs: %+v", all)
	}
	if gap := all[1].Started.Sub(*all[0].Finished); gap >= lease {
		s.t.Errorf("the successor started %s after the claim was handed back", gap)
	} else {
		s.t.Logf("the stop took %s; the successor started %s after the claim came back", took.Round(time.Millisecond), gap.Round(time.Millisecond))
	}
	docker(s.t, "start", s.container(r.service()))
	s.settled()
}

// A worker is paused past its lease; another builds and lands; continued, it is refused.
// Its renewal wakes up together with the answer of its builder: where that is faster it
// learns before it writes, the run row stays without a late write, and there is another
// round.
func pausedPastItsLease(s *stack) {
	for round := range 6 {
		k := newKey()
		s.tell(k)
		r := s.building(k)
		docker(s.t, "pause", s.container(r.service()))
		s.current(patience, k)
		docker(s.t, "unpause", s.container(r.service()))
		late := reached(s.t, 4*time.Second, func() bool { return s.runs(k)[0].Late != nil })
		all := s.runs(k)
		if len(all) != 2 || all[0].Outcome != "expired" || all[1].Outcome != "landed" || all[1].service() != r.other() {
			s.t.Fatalf("runs: %+v", all)
		}
		if by := one[string](s, `SELECT string_agg(run_id::text, ' ') FROM ops.matter_frames WHERE firm_id = $1 AND matter_id = $2`, k.firm, k.matter); by != all[1].ID {
			s.t.Fatalf("frames by %s, not by the successor %s", by, all[1].ID)
		}
		if late {
			s.t.Logf("round %d: the late write of %s is noted on its run, %s after the successor landed", round+1, r.service(), all[0].Late.Sub(*all[1].Finished).Round(time.Millisecond))
			s.settled()
			return
		}
	}
	s.t.Error("no paused worker came to write")
}

// A worker loses PostgreSQL in mid-build: the other takes over; back on the network it
// works on without a restart.
func workerCutOff(s *stack) {
	k := newKey()
	s.tell(k)
	r := s.building(k)
	before := s.state(r.service())
	s.cut(r.service(), "data")
	s.current(patience, k)
	if all := s.runs(k); all[len(all)-1].service() != r.other() {
		s.t.Errorf("runs: %+v", all)
	}
	s.mend(r.service(), "data")
	asked := time.Now()
	docker(s.t, "pause", s.container(r.other()))
	next := newKey()
	s.tell(next)
	landed := reached(s.t, patience, func() bool { all := s.runs(next); return len(all) > 0 && all[len(all)-1].Outcome == "landed" })
	docker(s.t, "unpause", s.container(r.other()))
	if !landed {
		s.t.Errorf("%s does not work after it came back: %+v", r.service(), s.runs(next))
	}
	s.t.Logf("back on the network, %s landed after %.1f s", r.service(), time.Since(asked).Seconds())
	if after := s.state(r.service()); !after.StartedAt.Equal(before.StartedAt) {
		s.t.Errorf("%s was restarted", r.service())
	}
	s.settled()
	s.sound()
}

// The relay loses the bus: workers take the facts from the outbox, an alert says that
// nothing is published, and both heal by themselves.
func relayCutOff(s *stack) {
	before := s.state("relay")
	s.cut("relay", "bus")
	keys := []key{newKey(), newKey(), newKey()}
	s.tell(keys...)
	s.current(patience, keys...)
	if n := one[int](s, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`); n < len(keys) {
		s.t.Errorf("%d facts unpublished although the bus is away", n)
	}
	s.awaitAlert("RailOutboxAgeing")
	s.mend("relay", "bus")
	eventually(s.t, patience, "all is published", func() bool {
		return one[int](s, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`) == 0
	})
	s.awaitClear("RailOutboxAgeing")
	if after := s.state("relay"); !after.StartedAt.Equal(before.StartedAt) {
		s.t.Error("the relay was restarted")
	}
	s.settled()
	s.sound()
}

// A daemon that is gone is missed.
func targetAbsent(s *stack) {
	for _, service := range []string{"worker-b", "relay"} {
		docker(s.t, "stop", "--time", "40", s.container(service))
		s.awaitAlert("RailTargetAbsent")
		docker(s.t, "start", s.container(service))
		s.settled()
		s.awaitClear("RailTargetAbsent")
	}
}

// The builder is gone: the promise breaks, and after its attempts the matter is parked,
// still owed. The builder comes back, an operator unparks it, and both alerts clear.
func promiseBroken(s *stack) {
	docker(s.t, "stop", "--time", "15", s.container("builder"))
	k := newKey()
	s.tell(k)
	s.awaitAlert("RailPromiseBroken")
	s.awaitAlert("RailMatterParked")
	docker(s.t, "start", s.container("builder"))
	s.settled()
	out := s.ctl("matter", "unpark", k.firm+"/"+k.matter, "--reason", "the builder is back", "--yes")
	s.t.Logf("unpark: %s", strings.TrimSpace(out))
	s.current(patience, k)
	s.awaitClear("RailPromiseBroken")
	s.awaitClear("RailMatterParked")
	s.sound()
}
