package specs

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"briefrail/internal/model"
)

func authorityLabel(from AuthorityState, a AuthorityAct, to AuthorityState) string {
	who, change := "writer "+fenced(int(a.Who)), strconv.Itoa(int(to.Change.ID))
	if a.Kind >= AuthorityPlans && a.Kind <= AuthorityDies {
		who = "controller " + name(a.Who)
	}
	intent := "intent " + strconv.Itoa(int(a.Intent))
	words := ""
	switch a.Kind {
	case AuthorityReads:
		words = fmt.Sprintf("%s reads the fence for %s (epoch %d)", who, intent, from.Fence.Epoch)
	case AuthorityAdmits:
		words = fmt.Sprintf("%s is admitted for %s (epoch %d)", who, intent, to.Writers[a.Who].Epoch)
	case AuthorityAnswers:
		words = who + " answers " + intent + " from its receipt"
	case AuthorityBegins:
		words = fmt.Sprintf("%s writes unasked (epoch %d)", who, from.Fence.Epoch)
	case AuthorityOther:
		words = intent + " comes with other content"
	case AuthorityCommits:
		words = fmt.Sprintf("%s commits write %d", who, to.Committed)
	case AuthorityPlans:
		words = fmt.Sprintf("%s plans change %s, to the %s side", who, change, to.Change.To)
	case AuthorityTakesUp:
		words = who + " takes change " + change + " up"
	case AuthoritySeals:
		words = fmt.Sprintf("%s seals at %d", who, to.Fence.Final)
	case AuthorityPosition:
		words = fmt.Sprintf("%s reads the position, %d", who, to.Controllers[a.Who].Position)
	case AuthorityAdvances:
		words = fmt.Sprintf("%s advances: epoch %d, %s", who, to.Fence.Epoch, to.Fence.Writer)
	case AuthorityBlind:
		words = who + " imports, and cannot tell what became of " + intent
	case AuthorityRepeats, AuthorityLoses:
		words = who + a.Kind.words() + from.Controllers[a.Who].PC.String()
	case AuthorityExpires:
		words = "the watchdog finds change " + change + " past its deadline"
	case AuthorityReopens:
		words = fmt.Sprintf("the watchdog aborts: epoch %d, %s", to.Fence.Epoch, to.Fence.Writer)
	case AuthorityTooLate, AuthorityCompletes, AuthorityRetires:
		words = a.Kind.words()
	default:
		words = who + a.Kind.words()
	}
	if a.Unheard {
		words += "; the reply is lost"
	}
	return words
}

// words are the labels that depend on the kind alone.
func (k AuthorityKind) words() string {
	return [...]string{
		AuthorityWorks:     " writes",
		AuthorityEnds:      " ends without a write",
		AuthorityChecks:    " passes the check of its commit",
		AuthorityRefused:   " is refused at its commit",
		AuthorityFails:     " is lost",
		AuthorityWaits:     " waits for the fence's row",
		AuthorityCloses:    " closes",
		AuthorityHorizon:   " notes which transactions there are",
		AuthorityDrains:    " has drained",
		AuthorityGraceOver: " drains no longer: the grace is over",
		AuthorityImports:   " imports",
		AuthorityMisses:    " imports, and misses the last write",
		AuthorityVerifies:  " verifies",
		AuthorityBlocks:    " verifies: the report blocks",
		AuthorityAborts:    " aborts",
		AuthorityRepeats:   " finds it done, and was ",
		AuthorityLoses:     " finds it over, and was ",
		AuthorityDies:      " dies",
		AuthorityTooLate:   "the watchdog finds it over",
		AuthorityCompletes: "the way back is given up",
		AuthorityRetires:   "the old side is retired",
	}[k]
}

// fenced names a writer's process with its side.
func fenced(who int) string { return name(int8(who)) + " (" + sideOf(who).String() + ")" }

func (m *authority) describe(s AuthorityState) []model.Field {
	fields := []model.Field{
		{Name: "fence", Value: s.Fence.words()},
		{Name: "change", Value: s.Change.words()},
		{Name: "accepted", Value: count(s.Committed)},
		{Name: "old side has", Value: s.Has[SideOld].words()},
		{Name: "new side has", Value: s.Has[SideNew].words()},
	}
	for i := range m.intents {
		fields = append(fields, model.Field{Name: "intent " + strconv.Itoa(i+1), Value: s.Intents[i].words()})
	}
	for who := range m.writers {
		fields = append(fields, model.Field{Name: "writer " + name(int8(who)), Value: sideOf(who).String() + ", " + s.Writers[who].words()})
	}
	for who, c := range s.Controllers {
		value := c.PC.String()
		if c.Change > 0 {
			value += " (change " + count(c.Change) + ")"
		}
		fields = append(fields, model.Field{Name: "controller " + name(int8(who)), Value: value})
	}
	watchdog := "idle"
	if s.Watchdog > 0 {
		watchdog = "about to abort change " + count(s.Watchdog)
	}
	return append(fields,
		model.Field{Name: "watchdog", Value: watchdog},
		model.Field{Name: "way back", Value: s.wayBack()},
		model.Field{Name: "faults left", Value: count(s.Faults)})
}

func (f Fence) words() string {
	words := fmt.Sprintf("epoch %d, %s, %s", f.Epoch, f.Writer, f.State)
	if f.State == FenceSealed {
		words += " at " + count(f.Final)
	}
	return words
}

func (c Change) words() string {
	if c.ID == 0 {
		return "none"
	}
	words := fmt.Sprintf("%d to %s, %s", c.ID, c.To, c.Phase)
	if c.verified() {
		words += ", verified"
	}
	return words
}

// words are the numbers of the writes, from 1.
func (w Writes) words() string {
	if w == 0 {
		return "nothing"
	}
	var numbers []string
	for rest := uint8(w); rest != 0; rest &= rest - 1 {
		numbers = append(numbers, strconv.Itoa(bits.TrailingZeros8(rest)+1))
	}
	return strings.Join(numbers, " ")
}

func (i Intent) words() string {
	words := "not carried out"
	if i.Effects != 0 {
		words = "write " + i.Effects.words()
	}
	if i.Unknown {
		words += ", unknown"
	}
	if i.Told {
		words += ", answered"
	}
	return words
}

func (w AuthorityWriter) words() string {
	words := w.PC.String()
	switch {
	case w.PC == FencedIdle:
	case w.Intent == 0:
		words += ", unasked (epoch " + count(w.Epoch) + ")"
	default:
		words += ", intent " + count(w.Intent) + " (epoch " + count(w.Epoch) + ")"
	}
	if w.Overdue {
		words += ", overdue"
	}
	return words
}

func (s *AuthorityState) wayBack() string {
	switch {
	case s.Retired:
		return "none, and the old side is retired"
	case s.Completed:
		return "none"
	default:
		return "kept"
	}
}
