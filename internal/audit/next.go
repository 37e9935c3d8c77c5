package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// conclude says why the matter is as it is, and what happens next.
func (e *Explanation) conclude(ctx context.Context, tx pgx.Tx) error {
	e.now()
	switch {
	case e.Job == nil && e.Undecided > 0:
		e.Next = "the trigger decides its facts; a demand among them queues the first build"
	case e.Job == nil:
		e.Next = "nothing, until a fact becomes demand"
	case e.Job.Status == "queued":
		return e.nextQueued(ctx, tx)
	default:
		e.Next = e.nextByStatus()
	}
	return nil
}

func (e *Explanation) say(format string, args ...any) {
	e.Now = append(e.Now, fmt.Sprintf(format, args...))
}

func (e *Explanation) now() {
	e.nowFrame()
	if j := e.Job; j != nil {
		e.nowOwed(*j)
		if j.LastError != "" && j.Attempts > 0 {
			e.say("the last attempt of %d since the last landing said: %s", j.Attempts, j.LastError)
		}
	}
	if e.Undecided > 0 {
		e.say("%s the trigger's verdict", plural(e.Undecided, "fact awaits", "facts await"))
	}
	for _, p := range e.Pauses {
		e.say("%s, since %s", pauseText(p), clock(p.PausedAt))
	}
}

func (e *Explanation) nowFrame() {
	switch j := e.Job; {
	case j == nil:
		e.say("the ledger has no job of this matter: nothing was demanded, or it was purged")
	case j.Landed == 0:
		e.say("no frame has landed yet")
	case e.Current == nil:
		e.say("generation %d landed, but its frame is not there: see railctl check", j.Landed)
	default:
		e.say("readers get generation %d, landed %s (%s), by run %s", j.Landed, clock(e.Current.BuiltAt), away(e.Current.BuiltAt, e.At), e.Current.RunID)
	}
}

func (e *Explanation) nowOwed(j JobRow) {
	if j.OwedSince == nil {
		e.say("the Brief is current: nothing is owed")
		return
	}
	e.say("the Brief is not current: %s owed since %s (%s), landed %d of requested %d",
		plural(j.DemandsOwed, "demand is", "demands are"), clock(*j.OwedSince), away(*j.OwedSince, e.At), j.Landed, j.Requested)
	if j.RebuildNeeded {
		e.say("demand came during the build, first at %s: it is not in that build", clock(*j.RebuildSince))
	}
}

func (e *Explanation) nextByStatus() string {
	switch j := e.Job; j.Status {
	case "idle":
		return "nothing, until the next demand queues a build"
	case "running":
		return e.nextRunning(*j)
	case "parked":
		if j.ParkedBy == "operator" {
			return fmt.Sprintf("nothing, until somebody unparks it (parked by an operator: %s); demand is recorded meanwhile", j.ParkedReason)
		}
		return fmt.Sprintf("nothing by itself: parked after %s (%s); new demand gives it one more attempt, unpark starts afresh",
			plural(int64(j.Attempts), "attempt", "attempts"), j.ParkedReason)
	default:
		return "unknown state " + j.Status
	}
}

func (e *Explanation) nextRunning(j JobRow) string {
	lease := *j.LeaseExpiresAt
	if lease.Before(e.At) {
		return fmt.Sprintf("the lease of run %s ran out %s: the next sweep takes the claim back, unless the build lands before it does",
			j.RunID, away(lease, e.At))
	}
	s := fmt.Sprintf("run %s lands token %d when its build ends; its worker renews the lease, and were it to fall silent the sweep would take the claim back after %s (%s)",
		j.RunID, j.Claimed, clock(lease), away(lease, e.At))
	if j.RebuildNeeded {
		s += "; then exactly one follow-up build is queued"
	}
	return s
}

// nextQueued asks how many of the firm stand before it.
func (e *Explanation) nextQueued(ctx context.Context, tx pgx.Tx) error {
	j := *e.Job
	var ahead int64
	if err := tx.QueryRow(ctx, aheadSQL, j.Firm, j.Priority, j.QueuedAt).Scan(&ahead); err != nil {
		return err
	}
	b, err := ReadBuilderTrouble(ctx, tx)
	if err != nil {
		return err
	}
	e.Builder = b
	e.Next = e.queuedText(j, ahead)
	return nil
}

func (e *Explanation) queuedText(j JobRow, ahead int64) string {
	why := e.waitText(j)
	switch {
	case len(e.Pauses) > 0:
		return why + fmt.Sprintf("no claim until dispatch is resumed (%s)", pauseText(e.Pauses[0]))
	case e.Builder != nil:
		return why + fmt.Sprintf("claims are being handed back because the builder is at fault (%s); "+
			"it is built once a trial build succeeds, and no attempt is charged meanwhile", e.Builder)
	}
	return why + fmt.Sprintf("a worker with a free slot claims it (attempt %d); %s", j.Attempts+1, aheadText(ahead))
}

// waitText is what a queued matter waits for before it may be claimed.
func (e *Explanation) waitText(j JobRow) string {
	if !j.NotBefore.After(e.At) {
		return ""
	}
	why := fmt.Sprintf("not before %s (%s): ", clock(*j.NotBefore), away(*j.NotBefore, e.At))
	switch {
	case j.Attempts > 0:
		return why + fmt.Sprintf("backoff after attempt %d; then ", j.Attempts)
	case e.Builder != nil: // a hand-back waits a second, which is no settling
		return why
	}
	return why + "it settles, so that more facts join the same build; then "
}

// mostAhead is the largest number that is said of those before.
const mostAhead = 1000

func aheadText(ahead int64) string {
	switch {
	case ahead == 0:
		return "no other matter of its firm goes before it"
	case ahead == 1:
		return "1 other matter of its firm goes before it"
	case ahead > mostAhead:
		return fmt.Sprintf("more than %d other matters of its firm go before it", mostAhead)
	}
	return fmt.Sprintf("%d other matters of its firm go before it", ahead)
}
