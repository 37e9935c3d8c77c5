package history

import (
	"errors"
	"fmt"
	"math"
	"time"

	"briefrail/internal/model/specs"
)

// before and after are who holds a claim: whoever the row named before the step, or
// somebody else. Which worker that is does not matter to a row.
const (
	before specs.Holder = 1
	after  specs.Holder = 2
)

// rows maps a change to rows of the model. Generations are counted from what had landed
// before it, so that a long history fits small numbers; prev is the model's Prev.
func rows(m *Moved[Job], at time.Time, prev int64) (old, now specs.Row, err error) {
	var base int64
	if m.Old != nil {
		base = m.Old.Landed
		if old, err = row(m.Old, at, base, before); err != nil {
			return old, now, err
		}
		if old.Status == specs.StatusRunning {
			old.Prev = uint16(prev - base)
		}
	}
	if m.New == nil {
		return old, now, errors.New("the row is deleted")
	}
	holder := after
	if m.Old != nil && m.New.Run == m.Old.Run {
		holder = before
	}
	now, err = row(m.New, at, base, holder)
	return old, now, err
}

// row maps an image. Whether its lease has run out is said of the step's own instant.
func row(j *Job, at time.Time, base int64, holder specs.Holder) (r specs.Row, err error) {
	for s := specs.StatusIdle; s <= specs.StatusParked; s++ {
		if s.String() == j.Status {
			r.Status = s
		}
	}
	if r.Status == specs.StatusNone {
		return r, fmt.Errorf("a row of the unknown status %q", j.Status)
	}
	for _, n := range []struct {
		from int64
		to   *uint16
	}{
		{j.Requested - base, &r.Requested},
		{j.Claimed - base, &r.Claimed},
		{j.Landed - base, &r.Landed},
		{j.Owed, &r.Owed},
		{j.Attempts, &r.Attempts},
	} {
		if n.from < 0 || n.from > math.MaxUint16 {
			return r, fmt.Errorf("a number (%d) went back, or beyond what the model counts to", n.from)
		}
		*n.to = uint16(n.from)
	}
	r.Flag = j.Flag
	if j.Run != "" {
		r.Holder = holder
		r.Expired = r.Status == specs.StatusRunning && !j.Lease.After(at)
	}
	return r, nil
}
