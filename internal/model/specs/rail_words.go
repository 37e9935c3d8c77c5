package specs

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"briefrail/internal/model"
)

func ledgerLabel(from LedgerState, a LedgerAct, to LedgerState) string {
	who := name(a.Who)
	switch a.Kind {
	case LedgerClaims:
		return fmt.Sprintf("%s claims (generation %d)", who, to.Row.Claimed)
	case LedgerInserts:
		return fmt.Sprintf("%s inserts frame %d", who, from.Workers[a.Who].Gen)
	case LedgerLands, LedgerLandUnheard:
		return landingLabel(from, a, to)
	case LedgerLandFenced:
		return fmt.Sprintf("%s's landing of %d is refused", who, from.Workers[a.Who].Gen)
	case LedgerDemand, LedgerDemandWrites:
		return demandLabel(from, a, to)
	case LedgerDemandReads:
		return "a demander looks: " + to.Demander.String()[len("saw "):]
	case LedgerSweeps:
		return fmt.Sprintf("the sweep takes the claim from %s: %s", from.Row.Holder, to.Row.Status)
	case LedgerLapses:
		return fmt.Sprintf("the lease of %s runs out", from.Row.Holder)
	case LedgerRewinds:
		return fmt.Sprintf("a failover loses %s's claim", who)
	case LedgerFails, LedgerGivesUp:
		return who + a.Kind.words() + ": " + to.Row.Status.String()
	default:
		return who + a.Kind.words()
	}
}

// words are the labels that depend on the kind alone.
func (k LedgerKind) words() string {
	return [...]string{
		LedgerRenews:         " renews its lease",
		LedgerRenewFenced:    " learns at a renewal that it is fenced",
		LedgerBuilds:         " has built its frame",
		LedgerFails:          "'s attempt fails",
		LedgerFailFenced:     "'s attempt fails; the write is refused",
		LedgerGivesUp:        "'s attempt fails for good",
		LedgerGiveUpFenced:   "'s attempt fails for good; the write is refused",
		LedgerReleases:       " releases its claim",
		LedgerReleaseFenced:  "'s release is refused",
		LedgerLandCut:        "'s landing is cut off before its commit",
		LedgerSettlesLanded:  " asks: it had landed",
		LedgerSettlesOpen:    " asks: its run is open, it tries again",
		LedgerSettlesRefused: " asks: its run is no longer open, it is refused",
		LedgerCrashes:        " crashes",
		LedgerPauses:         " pauses past its lease",
	}[k]
}

func landingLabel(from LedgerState, a LedgerAct, to LedgerState) string {
	words := fmt.Sprintf("%s lands generation %d", name(a.Who), from.Workers[a.Who].Gen)
	if to.Row.Status == StatusQueued {
		words += ", the follow-up is queued"
	}
	if a.Kind == LedgerLandUnheard {
		words += "; the answer is lost"
	}
	return words
}

func demandLabel(from LedgerState, a LedgerAct, to LedgerState) string {
	words := "a demand"
	if a.Kind == LedgerDemandWrites {
		words = "the demander writes"
	}
	switch {
	case to.Row == from.Row:
		return words + ": nothing, the row has changed meanwhile"
	case from.Row.Status == StatusRunning && !to.Row.Flag:
		return words + " during the build, unmarked"
	case from.Row.Status == StatusRunning:
		return words + " during the build"
	case from.Row.Status == StatusParked:
		return words + ": the parked job is queued"
	default:
		return words
	}
}

func (l *ledger) describe(s LedgerState) []model.Field {
	number := func(n uint16) string { return strconv.Itoa(int(n)) }
	fields := []model.Field{
		{Name: "status", Value: s.Row.Status.String()},
		{Name: "requested", Value: number(s.Row.Requested)},
		{Name: "claimed", Value: number(s.Row.Claimed)},
		{Name: "landed", Value: number(s.Row.Landed)},
		{Name: "holder", Value: s.Row.Holder.String()},
		{Name: "rebuild needed", Value: strconv.FormatBool(s.Row.Flag)},
		{Name: "lease expired", Value: strconv.FormatBool(s.Row.Expired)},
		{Name: "attempts", Value: number(s.Row.Attempts)},
		{Name: "demands owed", Value: number(s.Row.Owed)},
	}
	for who := range l.workers {
		fields = append(fields, model.Field{Name: name(int8(who)), Value: s.Workers[who].words()})
	}
	if !l.atomic {
		fields = append(fields, model.Field{Name: "demander", Value: s.Demander.String()})
	}
	return append(fields,
		model.Field{Name: "frames", Value: framesWords(s.Frames)},
		model.Field{Name: "demands made, covered", Value: count(s.Asked) + ", " + count(s.Covered)},
		model.Field{Name: "demands left", Value: count(s.Demands)},
		model.Field{Name: "faults left", Value: count(s.Faults)})
}

func (w LedgerWorker) words() string {
	if w.PC == WorkerIdle {
		return "idle"
	}
	return fmt.Sprintf("%s (generation %d, run %s)", w.PC, w.Gen, w.Run)
}

// framesWords lists the generations of a set.
func framesWords(set uint32) string {
	if set == 0 {
		return "none"
	}
	var words []string
	for ; set != 0; set &= set - 1 {
		words = append(words, strconv.Itoa(bits.TrailingZeros32(set)))
	}
	return strings.Join(words, " ")
}
