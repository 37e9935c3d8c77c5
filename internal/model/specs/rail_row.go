package specs

// Row is a matter's job row as far as it decides anything: the columns of
// ops.matter_frame_jobs without times and urgencies. Its methods are the
// transitions, each a pure function from a row to the next one; the explorer takes
// no others, and whoever checks a recorded history takes the same.
type Row struct {
	Requested uint16 // requested_generation
	Claimed   uint16 // claimed_generation
	Landed    uint16 // landed_generation

	// Prev is what Claimed was before the live claim: what a rewind gives back. No
	// column. Zero unless running.
	Prev uint16

	Owed     uint16 // demands_owed
	Attempts uint16 // attempts
	Status   Status // run_status
	Holder   Holder // whose run run_id names
	Flag     bool   // rebuild_needed
	Expired  bool   // lease_expires_at lies behind; false unless running
}

// Status is run_status. A parked row is always parked by failures: operators are not modelled.
type Status uint8

// The states of a row. StatusNone is the absence of one.
const (
	StatusNone Status = iota
	StatusIdle
	StatusQueued
	StatusRunning
	StatusParked
)

func (s Status) String() string { return [...]string{"none", "idle", "queued", "running", "parked"}[s] }

// Holder is who holds the claim: Nobody, a worker, or Dead, a worker that crashed
// with it. It stands for run_id: each claim has a run of its own and a worker at
// most one claim.
type Holder uint8

// Nobody holds a row that does not run.
const (
	Nobody Holder = 0
	Dead   Holder = 255
)

// HolderOf is a worker, counted from 0, as a holder.
func HolderOf(who int) Holder { return Holder(who + 1) }

// Worker returns which worker it is, counted from 0; false for Nobody and Dead.
func (h Holder) Worker() (who int, alive bool) { return int(h) - 1, h != Nobody && h != Dead }

func (h Holder) String() string {
	switch who, alive := h.Worker(); {
	case alive:
		return name(int8(who))
	case h == Dead:
		return "dead"
	default:
		return "nobody"
	}
}

// Demand records n demands. It fails for no state of the row: a running one gets
// the flag, a parked one (by failures) another attempt.
func (r Row) Demand(n uint16) Row {
	r.Requested += n
	r.Owed += n
	if r.Status == StatusRunning {
		r.Flag = true
	} else {
		r.Status = StatusQueued
	}
	return r
}

// Claim gives a queued row to a holder under the next generation.
func (r Row) Claim(by Holder) Row {
	r.Prev = r.Claimed
	r.Requested++
	r.Claimed = r.Requested
	r.Attempts++
	r.Status, r.Holder, r.Flag, r.Expired = StatusRunning, by, false, false
	return r
}

// Renew moves the lease's end of a running row ahead.
func (r Row) Renew() Row {
	r.Expired = false
	return r
}

// Lapse lets the lease of a running row run out. Nothing else changes: until it is
// swept, the claim is live.
func (r Row) Lapse() Row {
	r.Expired = true
	return r
}

// Land lands a generation, the claimed one unless the token is not checked. The
// flag becomes the follow-up in this same step.
func (r Row) Land(generation uint16) Row {
	r.Landed = generation
	r.Attempts = 0
	r.Owed = r.Requested - r.Claimed // only demand moves requested while a claim is live
	status := StatusIdle
	if r.Flag {
		status = StatusQueued
	}
	return r.leave(status)
}

// Fail ends a claim without a frame: parked when the attempts have reached most (0:
// never) or the error is permanent, unless demand came meanwhile; else queued. A
// sweep of an expired lease is a Fail.
func (r Row) Fail(most uint16, permanent bool) Row {
	status := StatusQueued
	if !r.Flag && (permanent || most > 0 && r.Attempts >= most) {
		status = StatusParked
	}
	return r.leave(status)
}

// Release hands a claim back without charging its attempt.
func (r Row) Release() Row {
	r.Attempts--
	return r.leave(StatusQueued)
}

// Rewind forgets the last claim, as a failover to a replica that did not have it:
// the counter will hand the same generation out again.
func (r Row) Rewind() Row {
	r.Requested--
	r.Claimed = r.Prev
	r.Attempts--
	return r.leave(StatusQueued)
}

// leave is how every claim ends.
func (r Row) leave(status Status) Row {
	r.Status, r.Holder, r.Prev, r.Flag, r.Expired = status, Nobody, 0, false, false
	return r
}

// Sound reports whether the row keeps the named constraints of its table:
// generations in order, an idle row owes nothing, the flag is unclaimed demand
// during a build, a running token has not landed, demands lie within the
// generations, and there is a holder exactly while it runs.
func (r Row) Sound() bool {
	running := r.Status == StatusRunning
	return r.Landed <= r.Claimed && r.Claimed <= r.Requested &&
		(r.Status <= StatusIdle) == (r.Landed == r.Requested) &&
		r.Flag == (running && r.Claimed < r.Requested) &&
		(!running || r.Claimed > r.Landed) &&
		r.Owed <= r.Requested-r.Landed &&
		running == (r.Holder != Nobody)
}
