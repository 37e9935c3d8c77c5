package history

import (
	"fmt"
	"strings"
)

// step is what one transaction did to one matter.
type step struct {
	first  Change // which gives number, transaction and instants
	job    *Moved[Job]
	jobs   int // changes of the job's row
	runs   []Moved[Run]
	frames []Moved[Frame]
}

// steps sorts changes by matter and transaction. The order of a matter's steps is that
// of their first changes.
func steps(changes []Change) map[string][]*step {
	type of struct{ matter, tx string }
	byMatter, at := map[string][]*step{}, map[of]*step{}
	for _, c := range changes {
		s := at[of{c.Matter, c.TX}]
		if s == nil {
			s = &step{first: c}
			at[of{c.Matter, c.TX}] = s
			byMatter[c.Matter] = append(byMatter[c.Matter], s)
		}
		s.add(c)
	}
	return byMatter
}

func (s *step) add(c Change) {
	switch {
	case c.Job != nil:
		s.first.Since, s.first.At = c.Since, c.At // the instant of the step is that of its row
		s.job = c.Job
		s.jobs++
	case c.Run != nil:
		s.runs = append(s.runs, *c.Run)
	case c.Frame != nil:
		s.frames = append(s.frames, *c.Frame)
	}
}

// String tells the step in one line.
func (s *step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d tx %s %s:", s.first.N, s.first.TX, s.first.At.UTC().Format("15:04:05.000000"))
	if s.job != nil {
		fmt.Fprintf(&b, " %s -> %s", s.job.Old, s.job.New)
	}
	for _, r := range s.runs {
		fmt.Fprintf(&b, "; run %s -> %s", r.Old, r.New)
	}
	for _, f := range s.frames {
		fmt.Fprintf(&b, "; frame %s -> %s", f.Old, f.New)
	}
	return b.String()
}

func (j *Job) String() string {
	if j == nil {
		return "(none)"
	}
	text := fmt.Sprintf("%s %d/%d/%d attempts %d owed %d", j.Status, j.Requested, j.Claimed, j.Landed, j.Attempts, j.Owed)
	if j.Flag {
		text += " flag"
	}
	if j.Run != "" {
		text += " run " + short(j.Run) + " until " + j.Lease.UTC().Format("15:04:05.000")
	}
	return text
}

func (r *Run) String() string {
	if r == nil {
		return "(none)"
	}
	text := fmt.Sprintf("%s of %d %s", short(r.ID), r.Generation, r.Outcome)
	if !r.Late.IsZero() {
		text += ", late"
	}
	return text
}

func (f *Frame) String() string {
	if f == nil {
		return "(none)"
	}
	return fmt.Sprintf("%d of %s", f.Generation, short(f.Run))
}

// short is the end of an id: its beginning is the time for all of a second.
func short(id string) string { return id[max(0, len(id)-6):] }
