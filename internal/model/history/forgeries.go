package history

import "time"

// Forgeries are the lies that a judge must see through.
func Forgeries() []Forgery {
	return []Forgery{
		{Name: "a stale landing is accepted", Register: true, find: late, lie: staleLanding},
		{Name: "a landing of the live claim is refused", Register: true, find: landing, lie: refusedThoughLive},
		{Name: "a number is handed out twice", Register: true, find: claim, lie: func(w *forger) {
			n := w.claimed().Generation
			w.job.Requested, w.job.Claimed, w.run.Generation = n, n, n
		}},
		{Name: "a landing by another run than the row serves", Register: true, find: landing, lie: func(w *forger) {
			w.run.ID, w.ran.ID, w.frame.Run = stranger, stranger, stranger
		}},
		{Name: "a claim of a row that runs", Register: true, find: ends, lie: (*forger).drop},
		{Name: "a landing that was never claimed", Register: true, find: claim, lie: (*forger).drop},
		{Name: "a run's id is used twice", find: claim, lie: func(w *forger) {
			id := w.claimed().ID
			w.job.Run, w.run.ID = id, id
		}},
		{Name: "a claim without a run", find: claim, lie: func(w *forger) { w.run.ID = stranger }},
		{Name: "a claim that counts no attempt", find: claim, lie: func(w *forger) {
			w.job.Attempts--
			w.run.Attempt--
		}},
		{Name: "a claim without a number of its own", find: claim, lie: func(w *forger) {
			w.job.Requested--
			w.job.Claimed--
			w.run.Generation--
		}},
		{Name: "landed goes back", find: landing, lie: func(w *forger) { w.job.Landed = w.was.Landed - 1 }},
		{Name: "a landing that leaves its frame out", find: landing, lie: func(w *forger) {
			w.strip(func(c Change) bool { return c.Frame != nil })
		}},
		{Name: "two frames of one landing", find: landing, lie: func(w *forger) { w.add(Change{Frame: &Moved[Frame]{New: w.frame}}) }},
		{Name: "a frame without a landing", find: demanding, lie: func(w *forger) {
			w.add(Change{Frame: &Moved[Frame]{New: &Frame{Generation: w.job.Claimed, Run: stranger}}})
		}},
		{Name: "the flag is forgotten by a landing", find: followed, lie: func(w *forger) { w.job.Status = "idle" }},
		{Name: "a follow-up that nobody asked for", find: last, lie: func(w *forger) { w.job.Status = "queued" }},
		{Name: "demand that changes nothing but what is owed", find: demanding, lie: func(w *forger) { w.job.Requested = w.was.Requested }},
		{Name: "demand is forgotten", find: demanding, lie: (*forger).drop},
		{Name: "a sweep before the lease has run out", find: swept, lie: func(w *forger) {
			w.was.Lease = w.at.At.Add(aLease)
			// the rows before it agree with the lie
			for i := range w.all {
				c := &w.all[i]
				if c.Matter == w.at.Matter && c.Job != nil && c.N < w.n && c.Job.New.Run == w.was.Run {
					c.Job.New.Lease = w.was.Lease
				}
				if c.Matter == w.at.Matter && c.Job != nil && c.Job.Old != nil && c.N < w.n && c.Job.Old.Run == w.was.Run {
					c.Job.Old.Lease = w.was.Lease
				}
			}
		}},
		{Name: "a run that ends as another attempt", find: landing, lie: func(w *forger) { w.run.Attempt++ }},
		{Name: "a sweep that leaves the run open", find: swept, lie: func(w *forger) { w.run.Outcome = "running" }},
		{Name: "a failure that is told as a release", find: failed, lie: func(w *forger) { w.run.Outcome = "released" }},
		{Name: "a failure that is not charged", find: failed, lie: func(w *forger) { w.job.Attempts-- }},
		{Name: "a renewal that goes to somebody else", find: renewed, lie: func(w *forger) { w.job.Run = stranger }},
		{Name: "an end that is written again", find: late, lie: func(w *forger) { w.run.Outcome = "landed" }},
	}
}

const stranger = "00000000-0000-0000-0000-0000000f0f0f"

func outcome(s *step, want string) bool {
	return len(s.runs) == 1 && s.job != nil && s.runs[0].Old != nil && s.runs[0].Old.Outcome == "running" && s.runs[0].New.Outcome == want
}

func landing(s *step) bool { return outcome(s, "landed") }

func followed(s *step) bool { return landing(s) && s.job.New.Status == "queued" }

func last(s *step) bool { return landing(s) && s.job.New.Status == "idle" }

func swept(s *step) bool { return outcome(s, "expired") }

func failed(s *step) bool { return outcome(s, "failed") }

func ends(s *step) bool { return swept(s) && s.job.New.Status == "queued" }

func claim(s *step) bool { return len(s.runs) == 1 && s.runs[0].Old == nil }

func demanding(s *step) bool {
	return s.job != nil && s.job.Old != nil && len(s.runs) == 0 && s.job.New.Requested > s.job.Old.Requested
}

func renewed(s *step) bool {
	return s.job != nil && s.job.Old != nil && len(s.runs) == 0 && s.job.New.Requested == s.job.Old.Requested
}

func late(s *step) bool { return s.job == nil && len(s.runs) == 1 && !s.runs[0].New.Late.IsZero() }

// staleLanding makes the refusal of a late write a landing.
func staleLanding(w *forger) {
	was := *w.row()
	now := was
	now.Landed, now.Attempts, now.Run, now.Lease = w.run.Generation, 0, "", time.Time{}
	now.Owed = now.Requested - now.Claimed
	now.Status, now.Flag = "queued", false
	if now.Landed == now.Requested {
		now.Status = "idle"
	}
	w.run.Late, w.run.Outcome = time.Time{}, "landed"
	frame := Frame{Generation: w.run.Generation, Run: w.run.ID}
	w.add(Change{Job: &Moved[Job]{&was, &now}})
	w.add(Change{Frame: &Moved[Frame]{New: &frame}})
}

// refusedThoughLive makes a landing a refusal.
func refusedThoughLive(w *forger) {
	run := *w.ran
	run.Late = w.at.At
	for i := range w.all {
		if w.mine(w.all[i]) && w.all[i].Run != nil {
			w.all[i].Run.New = &run
		}
	}
	w.strip(func(c Change) bool { return c.Run == nil })
}
