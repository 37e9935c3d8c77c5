package specs

import (
	"fmt"
	"strconv"

	"briefrail/internal/model"
)

// maxInvocations is what the arrays hold. A state of an unused invocation stays
// zero and costs nothing but its bytes.
const maxInvocations = 8

// maxBudget keeps every counter inside a byte: an epoch, and so an assignment,
// beyond the first needs a fault.
const maxBudget = 100

// routerState is one record and the invocations that work on it.
type routerState struct {
	Status  routerStatus
	Epoch   uint8
	Expired bool  // the lease has run out
	L2      uint8 // second-level assignments
	Routed  bool  // has been ROUTED at some time: what "ROUTED is final" needs
	Left    uint8 // fault budget
	PC      [maxInvocations]routerPC
	Claim   [maxInvocations]uint8 // claimed epoch, 0 for none
}

type routerStatus uint8

const (
	absent routerStatus = iota
	pending
	routing
	routed
)

func (s routerStatus) String() string {
	return [...]string{"absent", "PENDING", "ROUTING", "ROUTED"}[s]
}

// routerPC is where an invocation stands. Those from routerClaimed on are active.
type routerPC uint8

const (
	routerIdle    routerPC = iota // delivered, about to claim
	routerDone                    // not running: finished, exited or crashed
	routerClaimed                 // about to dispatch
	routerSent                    // about to mark ROUTED
	routerFailed                  // about to reset to PENDING
)

func (p routerPC) String() string {
	return [...]string{"idle", "done", "claimed", "sent", "failed"}[p]
}

// routerAct is a step; Who is the invocation it is about.
type routerAct struct {
	Kind routerKind
	Who  int8
}

type routerKind uint8

const (
	routerRedelivered routerKind = iota
	routerClaims
	routerExits
	routerDispatches
	routerDispatchFails
	routerTimesOut // the dispatch was sent, its answer was lost
	routerMarkRejected
	routerMarks
	routerMarkFails
	routerResetRejected
	routerResets
	routerCrashes
	routerExpires // with no holder: time alone
	routerPauses  // the holder sleeps past its lease
)

// router is a variant of the design.
type router struct {
	invocations        int
	idem, lease, fence bool
}

func routerEntry() Entry {
	return Entry{
		Name:    "router",
		About:   "claims a record, dispatches one second-level assignment, marks it ROUTED",
		Workers: Bound{Default: 2, Most: maxInvocations},
		Faults:  Bound{Default: 2, Most: maxBudget},
		Switches: []Switch{
			{"idem", "the dispatch is idempotent: the second one counts for nothing"},
			{"lease", "a claim runs out and can be taken over"},
			{"fence", "mark and reset are refused to a claim that is no longer the record's"},
		},
		build: func(s settings) Checked {
			r := router{invocations: s.workers, idem: s.has("idem"), lease: s.has("lease"), fence: s.has("fence")}
			return checked[routerState, routerAct]{title: s.title(), model: r.model(s.faults)}
		},
	}
}

func (r router) model(faults int) model.Model[routerState, routerAct] {
	return model.Model[routerState, routerAct]{
		Name:     "router",
		Initial:  routerState{Left: uint8(faults)},
		Next:     r.next,
		Label:    r.label,
		Fault:    routerAct.fault,
		Describe: r.describe,
		Properties: []model.Property[routerState]{
			{Name: "at most one L2", Kind: model.Never, At: func(s routerState) bool { return s.L2 > 1 }},
			{Name: "ROUTED is final", Kind: model.Never, At: func(s routerState) bool { return s.Routed && s.Status != routed }},
			{Name: "can be ROUTED", Kind: model.Reachable, At: func(s routerState) bool { return s.Status == routed }},
			{Name: "recovers to ROUTED", Kind: model.Recoverable, At: func(s routerState) bool { return s.Status == routed }},
		},
	}
}

func (a routerAct) fault() bool {
	switch a.Kind {
	case routerDispatchFails, routerTimesOut, routerMarkFails, routerCrashes, routerPauses:
		return true
	default:
		return false
	}
}

// next offers the steps of each invocation in turn, then the lease's.
func (r router) next(s routerState, yield func(routerAct, routerState)) {
	for who := range r.invocations {
		switch s.PC[who] {
		case routerDone:
			to := s
			to.PC[who] = routerIdle
			yield(routerAct{routerRedelivered, int8(who)}, to)
			continue
		case routerIdle:
			r.claim(s, who, yield)
			continue
		case routerClaimed:
			r.dispatch(s, who, yield)
		case routerSent:
			r.mark(s, who, yield)
		case routerFailed:
			r.reset(s, who, yield)
		}
		if s.Left > 0 {
			to := s
			to.Left--
			to.end(who)
			yield(routerAct{routerCrashes, int8(who)}, to)
		}
	}
	if r.lease && s.Status == routing && !s.Expired {
		r.expire(s, yield)
	}
}

// claim takes a record that is free, in every design under a new epoch; whoever
// cannot have it exits.
func (r router) claim(s routerState, who int, yield func(routerAct, routerState)) {
	to := s
	if s.Status > pending && !(r.lease && s.Status == routing && s.Expired) {
		to.end(who)
		yield(routerAct{routerExits, int8(who)}, to)
		return
	}
	to.Epoch++
	to.write(routing)
	to.Expired = false
	to.PC[who], to.Claim[who] = routerClaimed, to.Epoch
	yield(routerAct{routerClaims, int8(who)}, to)
}

// dispatch is refused to nobody: the fence guards the record, not the world.
func (r router) dispatch(s routerState, who int, yield func(routerAct, routerState)) {
	to := s
	r.assign(&to)
	to.PC[who] = routerSent
	yield(routerAct{routerDispatches, int8(who)}, to)
	if s.Left == 0 {
		return
	}
	to = s
	to.Left--
	to.PC[who] = routerFailed
	yield(routerAct{routerDispatchFails, int8(who)}, to)
	r.assign(&to)
	yield(routerAct{routerTimesOut, int8(who)}, to)
}

// mark writes the outcome. Without a fence it looks at neither epoch nor status.
// When it fails the record is as it was, and the invocation will reset it although
// the assignment is out.
func (r router) mark(s routerState, who int, yield func(routerAct, routerState)) {
	to := s
	to.end(who)
	if r.rejected(&s, who) {
		yield(routerAct{routerMarkRejected, int8(who)}, to)
		return
	}
	to.write(routed)
	yield(routerAct{routerMarks, int8(who)}, to)
	if s.Left > 0 {
		to = s
		to.Left--
		to.PC[who] = routerFailed
		yield(routerAct{routerMarkFails, int8(who)}, to)
	}
}

// reset gives the record back. Without a fence it may be somebody else's by now.
func (r router) reset(s routerState, who int, yield func(routerAct, routerState)) {
	to := s
	to.end(who)
	if r.rejected(&s, who) {
		yield(routerAct{routerResetRejected, int8(who)}, to)
		return
	}
	to.write(pending)
	yield(routerAct{routerResets, int8(who)}, to)
}

// expire lets the lease run out: for nothing where its holder is gone, for a fault
// where the holder is alive and must be paused for that long.
func (r router) expire(s routerState, yield func(routerAct, routerState)) {
	to := s
	to.Expired = true
	holder := s.holder(r.invocations)
	if holder < 0 {
		yield(routerAct{Kind: routerExpires}, to)
		return
	}
	if s.Left > 0 {
		to.Left--
		yield(routerAct{routerPauses, int8(holder)}, to)
	}
}

// rejected reports whether the record's writes are refused to an active
// invocation.
func (r router) rejected(s *routerState, who int) bool {
	return r.fence && s.Claim[who] != s.Epoch
}

// assign counts a second-level assignment.
func (r router) assign(s *routerState) {
	if s.L2++; r.idem {
		s.L2 = 1
	}
}

// end is how an invocation stops, whatever the reason.
func (s *routerState) end(who int) { s.PC[who], s.Claim[who] = routerDone, 0 }

// write sets the status and what follows from it.
func (s *routerState) write(status routerStatus) {
	s.Status = status
	if status != routing {
		s.Expired = false
	}
	if status == routed {
		s.Routed = true
	}
}

// holder returns the active invocation whose claim is the record's, -1 for none.
func (s *routerState) holder(invocations int) int {
	for who := range invocations {
		if s.PC[who] >= routerClaimed && s.Claim[who] == s.Epoch {
			return who
		}
	}
	return -1
}

// label names epochs where the design has both a lease and an idempotent dispatch:
// all that can go wrong there is who writes under which of them.
func (r router) label(from routerState, a routerAct, to routerState) string {
	who, epochs := name(a.Who), r.idem && r.lease
	switch {
	case a.Kind == routerClaims && epochs:
		return fmt.Sprintf("%s claims (epoch %d)", who, to.Epoch)
	case a.Kind == routerClaims && from.Status == routing:
		return who + " reclaims"
	case a.Kind == routerPauses && epochs:
		return who + " pauses, lease expires"
	case a.Kind == routerExpires:
		return "lease expires"
	}
	return who + [...]string{
		routerRedelivered:   " is redelivered",
		routerClaims:        " claims",
		routerExits:         " exits without a claim",
		routerDispatches:    " dispatches",
		routerDispatchFails: "'s dispatch fails",
		routerTimesOut:      "'s dispatch times out (was sent)",
		routerMarkRejected:  "'s mark is rejected",
		routerMarks:         " marks ROUTED",
		routerMarkFails:     "'s mark fails",
		routerResetRejected: "'s reset is rejected",
		routerResets:        " resets to PENDING",
		routerCrashes:       " crashes",
		routerPauses:        " pauses past its lease",
	}[a.Kind]
}

func (r router) describe(s routerState) []model.Field {
	fields := []model.Field{
		{Name: "status", Value: s.Status.String()},
		{Name: "epoch", Value: count(s.Epoch)},
		{Name: "lease expired", Value: strconv.FormatBool(s.Expired)},
		{Name: "L2", Value: count(s.L2)},
	}
	for who := range r.invocations {
		fields = append(fields, model.Field{Name: name(int8(who)), Value: at(s.PC[who].String(), s.Claim[who])})
	}
	return append(fields, model.Field{Name: "faults left", Value: count(s.Left)})
}

// name is how traces call an invocation: A, B, C, ...
func name(who int8) string { return string(rune('A' + who)) }

func count(n uint8) string { return strconv.Itoa(int(n)) }

// at says where an invocation stands and under which epoch it claimed, if it did.
func at(pc string, epoch uint8) string {
	if epoch == 0 {
		return pc
	}
	return fmt.Sprintf("%s (epoch %d)", pc, epoch)
}
