package history

import (
	"cmp"
	"slices"
)

// Write is one operation on the register that a matter's row is: who may land.
//
// The interval [Call, Return] holds the instant at which the operation took effect, in
// nanoseconds of the database's clock. Of a write that touched the row that instant is
// the row's change: its writer holds the row from there to its commit, so no other
// write of the row lies between. The change lies between the beginning of its statement
// and the trigger's own look at the clock. A refused landing (or
// failure, or release: the note does not say) leaves nothing but the note of it: it was
// tried after its token had been handed out, and judged before the note. It judged by
// committed rows, and a token that is gone never comes back.
type Write struct {
	Matter       string
	Kind         WriteKind
	Run          string
	Generation   int64
	OK           bool // false: refused
	Call, Return int64
}

// WriteKind is what a write does to the register.
type WriteKind uint8

// The writes. A read is the row's landed generation at the end.
const (
	WriteClaim WriteKind = iota // the token is handed out
	WriteLand                   // lands under the token, or is refused
	WriteEnd                    // fails, releases or is swept: the token is taken back
	WriteRead
)

func (k WriteKind) String() string { return [...]string{"claim", "land", "end", "read"}[k] }

// Writes is a history as writes of registers, one a matter.
func Writes(changes []Change) []Write {
	var out []Write
	for matter, all := range steps(changes) {
		handed := map[string]int64{} // run -> when its claim was surely made
		var last *step
		for _, s := range all {
			for _, r := range s.runs {
				if w, ok := write(s, r, handed); ok {
					w.Matter = matter
					out = append(out, w)
				}
			}
			if s.job != nil {
				last = s
			}
		}
		if last != nil {
			at := last.first.At.UnixNano()
			out = append(out, Write{Matter: matter, Kind: WriteRead, Generation: last.job.New.Landed, OK: true, Call: at, Return: at + 1})
		}
	}
	slices.SortFunc(out, func(a, b Write) int { return cmp.Compare(a.Call, b.Call) })
	return out
}

func write(s *step, r Moved[Run], handed map[string]int64) (Write, bool) {
	if r.New == nil {
		return Write{}, false
	}
	w := Write{Run: r.New.ID, Generation: r.New.Generation, OK: true, Call: s.first.Since.UnixNano(), Return: s.first.At.UnixNano()}
	switch {
	case r.Old == nil:
		w.Kind = WriteClaim
		handed[w.Run] = w.Return
	case r.New.Outcome == "landed":
		w.Kind = WriteLand
	case r.Old.Late.IsZero() && !r.New.Late.IsZero():
		w.Kind, w.OK, w.Call = WriteLand, false, handed[w.Run]
	default:
		w.Kind = WriteEnd
	}
	return w, true
}
