package specs

import (
	"strconv"

	"briefrail/internal/model"
)

// jobState is one job row and the invocations that work on it. Running the job and
// writing its outcome are one step.
type jobState struct {
	Row     jobRow
	Epoch   uint8
	Expired bool
	Done    uint8 // done writes that were accepted
	Left    uint8 // fault budget
	PC      [maxInvocations]jobPC
	Claim   [maxInvocations]uint8 // claimed epoch, 0 for none
}

type jobRow uint8

const (
	rowNone jobRow = iota
	rowRunning
	rowError
	rowDone
)

func (r jobRow) String() string { return [...]string{"none", "running", "error", "done"}[r] }

type jobPC uint8

const (
	jobIdle jobPC = iota
	jobDone       // not running: finished, exited or crashed
	jobRunning
)

func (p jobPC) String() string { return [...]string{"idle", "done", "running"}[p] }

// jobAct is a step; Who is the invocation it is about.
type jobAct struct {
	Kind jobKind
	Who  int8
}

type jobKind uint8

const (
	jobRedelivered jobKind = iota
	jobTakes               // inserts, or reclaims
	jobExits
	jobRejected
	jobWritesDone
	jobWritesError
	jobCrashes
	jobExpires // with no holder: time alone
	jobPauses  // the holder sleeps past its lease
)

// job is a version of the worker: v0 neither reclaims nor fences, v1 reclaims, v2
// does both.
type job struct {
	invocations    int
	reclaim, fence bool
}

func jobEntry() Entry {
	return Entry{
		Name:     "job",
		About:    "inserts or reclaims a row, runs, writes done",
		Workers:  Bound{Default: 2, Most: maxInvocations},
		Faults:   Bound{Default: 2, Most: maxBudget},
		Versions: []string{"v0", "v1", "v2"},
		build: func(s settings) Checked {
			j := job{invocations: s.workers, reclaim: s.version != "v0", fence: s.version == "v2"}
			return checked[jobState, jobAct]{title: s.title(), model: j.model(s.faults)}
		},
	}
}

func (j job) model(faults int) model.Model[jobState, jobAct] {
	return model.Model[jobState, jobAct]{
		Name:     "job",
		Initial:  jobState{Left: uint8(faults)},
		Next:     j.next,
		Label:    jobLabel,
		Fault:    jobAct.fault,
		Describe: j.describe,
		Properties: []model.Property[jobState]{
			{Name: "at most one done write", Kind: model.Never, At: func(s jobState) bool { return s.Done > 1 }},
			{Name: "done is final", Kind: model.Never, At: func(s jobState) bool { return s.Done > 0 && s.Row != rowDone }},
			{Name: "can be done", Kind: model.Reachable, At: func(s jobState) bool { return s.Row == rowDone }},
			{Name: "recovers to done", Kind: model.Recoverable, At: func(s jobState) bool { return s.Row == rowDone }},
		},
	}
}

func (a jobAct) fault() bool {
	return a.Kind == jobWritesError || a.Kind == jobCrashes || a.Kind == jobPauses
}

// next offers the steps of each invocation in turn, then the lease's.
func (j job) next(s jobState, yield func(jobAct, jobState)) {
	for who := range j.invocations {
		switch s.PC[who] {
		case jobDone:
			to := s
			to.PC[who] = jobIdle
			yield(jobAct{jobRedelivered, int8(who)}, to)
		case jobIdle:
			j.take(s, who, yield)
		case jobRunning:
			j.finish(s, who, yield)
		}
	}
	if j.reclaim && s.Row == rowRunning && !s.Expired {
		j.expire(s, yield)
	}
}

// take inserts the row, or reclaims one that failed or whose lease ran out. A done
// row is never taken.
func (j job) take(s jobState, who int, yield func(jobAct, jobState)) {
	to := s
	if s.Row != rowNone && !(j.reclaim && (s.Row == rowError || (s.Row == rowRunning && s.Expired))) {
		to.end(who)
		yield(jobAct{jobExits, int8(who)}, to)
		return
	}
	to.Row, to.Expired = rowRunning, false
	to.Epoch++
	to.PC[who], to.Claim[who] = jobRunning, to.Epoch
	yield(jobAct{jobTakes, int8(who)}, to)
}

// finish writes the outcome. Without a fence the write looks at neither the epoch
// nor the row.
func (j job) finish(s jobState, who int, yield func(jobAct, jobState)) {
	ended := s
	ended.end(who)
	if j.fence && s.Claim[who] != s.Epoch {
		yield(jobAct{jobRejected, int8(who)}, ended)
	} else {
		to := ended
		to.Row, to.Expired = rowDone, false
		to.Done++
		yield(jobAct{jobWritesDone, int8(who)}, to)
		if s.Left > 0 {
			to = ended
			to.Row, to.Expired = rowError, false
			to.Left--
			yield(jobAct{jobWritesError, int8(who)}, to)
		}
	}
	if s.Left > 0 {
		ended.Left--
		yield(jobAct{jobCrashes, int8(who)}, ended)
	}
}

// expire lets the lease run out: for nothing where its holder is gone, for a fault
// where the holder is alive.
func (j job) expire(s jobState, yield func(jobAct, jobState)) {
	to := s
	to.Expired = true
	for who := range j.invocations {
		if s.PC[who] == jobRunning && s.Claim[who] == s.Epoch {
			if s.Left > 0 {
				to.Left--
				yield(jobAct{jobPauses, int8(who)}, to)
			}
			return
		}
	}
	yield(jobAct{Kind: jobExpires}, to)
}

// end is how an invocation stops, whatever the reason.
func (s *jobState) end(who int) { s.PC[who], s.Claim[who] = jobDone, 0 }

func jobLabel(from jobState, a jobAct, _ jobState) string {
	switch {
	case a.Kind == jobExpires:
		return "lease expires"
	case a.Kind == jobTakes && from.Row == rowNone:
		return name(a.Who) + " inserts"
	}
	return name(a.Who) + [...]string{
		jobRedelivered: " is redelivered",
		jobTakes:       " reclaims",
		jobExits:       " exits (duplicate)",
		jobRejected:    "'s late write is rejected",
		jobWritesDone:  " writes done",
		jobWritesError: "'s engine error writes error",
		jobCrashes:     " crashes",
		jobPauses:      " pauses past its lease",
	}[a.Kind]
}

func (j job) describe(s jobState) []model.Field {
	fields := []model.Field{
		{Name: "row", Value: s.Row.String()},
		{Name: "epoch", Value: count(s.Epoch)},
		{Name: "lease expired", Value: strconv.FormatBool(s.Expired)},
		{Name: "done writes", Value: count(s.Done)},
	}
	for who := range j.invocations {
		fields = append(fields, model.Field{Name: name(int8(who)), Value: at(s.PC[who].String(), s.Claim[who])})
	}
	return append(fields, model.Field{Name: "faults left", Value: count(s.Left)})
}
