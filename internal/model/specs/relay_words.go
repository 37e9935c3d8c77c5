package specs

import (
	"strconv"
	"strings"

	"briefrail/internal/model"
)

func (r relayModel) label(from relayState, a relayAct, _ relayState) string {
	who, fact := "relay "+name(a.Who), "fact "+strconv.Itoa(int(a.Fact)+1)
	if a.Fact == maxFacts {
		fact = "a forged nudge"
	}
	if a.Kind >= consumerReceives && a.Kind <= consumerCrashes {
		who = "consumer " + name(a.Who)
	}
	switch a.Kind {
	case relayCommits:
		return "a producer commits fact " + strconv.Itoa(len(from.Committed.list())+1)
	case relayReads:
		return who + " reads " + (from.Committed &^ (from.Published | from.Parked)).words()
	case relaySends:
		return who + " sends " + from.Relays[a.Who].Hand.words()
	case relayMarks, relayMarksFirst:
		return who + " marks " + (from.Relays[a.Who].Hand | from.Relays[a.Who].Park).words()
	case relayEntryRefused:
		return who + " sends; " + fact + " is refused"
	case relayEntryFinal:
		return who + " sends; " + fact + " is refused for good"
	case relayLapses:
		return "the lease of the dead relay runs out"
	case queueDrops:
		return "the queue drops " + fact
	case queueDoubles:
		return "the queue doubles " + fact
	case queueIsForged:
		return "somebody forges a nudge"
	case consumerReceives, consumerDecides, consumerDemands, consumerSweeps, consumerDeletes:
		return who + a.Kind.words() + fact
	default:
		return who + a.Kind.words()
	}
}

// words are the labels that depend on the kind alone.
func (k relayKind) words() string {
	return [...]string{
		relayTakes:          " takes the bucket",
		relayRenews:         " renews its lease",
		relayUnheard:        " sends; the answer is lost",
		relayMarkFenced:     "'s mark is refused",
		relayCrashes:        " crashes",
		consumerReceives:    " receives ",
		consumerDecides:     " decides ",
		consumerDemands:     " demands ",
		consumerSweeps:      " sweeps ",
		consumerDeletes:     " deletes ",
		consumerDeleteFails: " cannot delete its message",
		consumerCrashes:     " crashes",
		relayPauses:         " pauses past its lease",
	}[k]
}

// list returns the facts of a set by number, from 1.
func (f facts) list() []string {
	var words []string
	for i := range maxFacts {
		if f&factOf(i) != 0 {
			words = append(words, strconv.Itoa(i+1))
		}
	}
	return words
}

func (f facts) words() string {
	switch list := f.list(); len(list) {
	case 0:
		return "nothing"
	case 1:
		return "fact " + list[0]
	default:
		return "facts " + strings.Join(list, " ")
	}
}

func (r relayModel) describe(s relayState) []model.Field {
	fields := []model.Field{
		{Name: "committed", Value: s.Committed.words()},
		{Name: "published", Value: s.Published.words()},
		{Name: "parked", Value: s.Parked.words()},
		{Name: "receipts", Value: s.Receipts.words()},
		{Name: "demanded", Value: s.Demanded.words()},
		{Name: "bucket", Value: s.Lease.words()},
	}
	for who := range r.relays {
		p := s.Relays[who]
		value := p.PC.String()
		if p.PC != relayIdle {
			value += " " + (p.Hand | p.Park).words() + " (epoch " + count(p.Epoch) + ")"
		}
		fields = append(fields, model.Field{Name: "relay " + name(int8(who)), Value: value})
	}
	for who, c := range s.Consumers {
		value := c.PC.String()
		if c.PC != consumerIdle {
			value += " " + nudgeWords(int(c.Fact))
		}
		fields = append(fields, model.Field{Name: "consumer " + name(int8(who)), Value: value})
	}
	return append(fields,
		model.Field{Name: "queue", Value: s.queueWords()},
		model.Field{Name: "faults left", Value: count(s.Left)})
}

func (l bucketLease) words() string {
	words := l.Holder.String()
	if l.Holder != Nobody {
		words += " (epoch " + count(l.Epoch) + ")"
	}
	if l.Expired {
		words += ", expired"
	}
	return words
}

func nudgeWords(fact int) string {
	if fact == maxFacts {
		return "a forged nudge"
	}
	return "fact " + strconv.Itoa(fact+1)
}

func (s *relayState) queueWords() string {
	var words []string
	for i, copies := range s.Queue {
		if copies > 0 {
			words = append(words, count(copies)+" of "+nudgeWords(i))
		}
	}
	if len(words) == 0 {
		return "empty"
	}
	return strings.Join(words, ", ")
}
