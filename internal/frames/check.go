package frames

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays that a frame may have;
// the frame itself is level 1. It bounds the stack, and the time of the digest,
// which looks at a value once for every unsorted object around it.
const MaxDepth = 100

// HardMax is the largest frame in bytes, whatever the caller allows: a jsonb
// value, or one string in it, cannot be longer.
const HardMax = 1<<28 - 1

// Reason names what is wrong with a refused frame: a closed set, fit for a label.
type Reason string

// The reasons of an InvalidError.
const (
	ReasonTooLarge     Reason = "too_large"     // more bytes than allowed
	ReasonNotUTF8      Reason = "not_utf8"      // a byte that is no UTF-8, a surrogate written as UTF-8 included
	ReasonNotObject    Reason = "not_object"    // empty, or another value than an object
	ReasonSyntax       Reason = "syntax"        // no JSON: a byte order mark, a raw control character, a cut text
	ReasonTrailing     Reason = "trailing"      // something after the object
	ReasonDuplicateKey Reason = "duplicate_key" // twice the same key in one object, however it is escaped
	ReasonNumber       Reason = "number"        // a number that a double cannot hold, or jsonb cannot store
	ReasonNUL          Reason = "nul"           // U+0000, raw or escaped: Postgres cannot store it
	ReasonSurrogate    Reason = "surrogate"     // an escaped half of a surrogate pair
	ReasonDepth        Reason = "depth"         // nested deeper than MaxDepth
)

// Reasons returns every Reason, to start metrics at 0.
func Reasons() []Reason {
	return []Reason{
		ReasonTooLarge, ReasonNotUTF8, ReasonNotObject, ReasonSyntax, ReasonTrailing,
		ReasonDuplicateKey, ReasonNumber, ReasonNUL, ReasonSurrogate, ReasonDepth,
	}
}

// phrase is the reason in words.
func (r Reason) phrase() string {
	switch r {
	case ReasonTooLarge:
		return "too large"
	case ReasonNotUTF8:
		return "not valid UTF-8"
	case ReasonNotObject:
		return "not a JSON object"
	case ReasonSyntax:
		return "not JSON"
	case ReasonTrailing:
		return "something follows the object"
	case ReasonDuplicateKey:
		return "duplicate key"
	case ReasonNumber:
		return "number that a double cannot hold exactly"
	case ReasonNUL:
		return "U+0000"
	case ReasonSurrogate:
		return "lone surrogate"
	case ReasonDepth:
		return fmt.Sprintf("nested deeper than %d levels", MaxDepth)
	}
	return string(r)
}

// InvalidError says why a frame is refused and where. It never carries text of
// the document.
type InvalidError struct {
	Reason Reason
	Offset int64 // byte of the input, counted from 0; -1 when it has no place
}

// Error returns, for example, "invalid_frame: duplicate key at byte 812".
func (e *InvalidError) Error() string {
	if e.Offset < 0 {
		return "invalid_frame: " + e.Reason.phrase()
	}
	return fmt.Sprintf("invalid_frame: %s at byte %d", e.Reason.phrase(), e.Offset)
}

// Checked is what is known of a frame that passed Check.
type Checked struct {
	Digest [32]byte // SHA-256 of the RFC 8785 canonical form
	Size   int64    // bytes as given, white space included
}

// Check reports whether raw is a frame that can be kept without changing it: at
// most max bytes that hold exactly one JSON object in valid UTF-8, which jsonb
// can store, without duplicate keys, and whose numbers a double can hold. The
// error is an *InvalidError.
//
// A number passes when its decimal value comes back from the shortest text of the
// nearest double: 0.1 and 1.50 pass, 9007199254740993 and 1e400 do not. So two
// frames with one digest hold the same decimal values; an integer such as 2^60
// written in full is refused, as its canonical text is another decimal number.
// -0 passes as the zero that both jsonb and RFC 8785 make of it.
//
// Besides raw it holds four bytes for each member of the open objects that are not
// in canonical order, and a bit for two bytes of raw: there is no copy of the frame.
func Check(raw []byte, max int64) (Checked, error) {
	s := scanner{raw: raw}
	if err := s.document(min(max, HardMax)); err != nil {
		return Checked{}, err
	}
	return Checked{Digest: s.digest(), Size: int64(len(raw))}, nil
}

// Find returns the values of the named members of the object raw, as parts of raw
// in the order of names; nil where there is none. Names match exactly, by the
// unescaped key. Of a found value only the extent is known, so that a frame inside
// an answer is checked once, by Check; everything else is held to the rules of
// Check, keys included. The error is an *InvalidError.
func Find(raw []byte, names ...string) ([][]byte, error) {
	found := make([][]byte, len(names))
	s := scanner{raw: raw}
	s.pick = func(key, value int) (int, bool) {
		i := slices.IndexFunc(names, func(n string) bool { return s.keyIs(key, n) })
		if i < 0 {
			return 0, false
		}
		end := s.skim(value)
		if end > 0 {
			found[i] = raw[value:end:end]
			s.taken = append(s.taken, extent{uint32(value), uint32(end)})
		}
		return end, true
	}
	if err := s.document(HardMax); err != nil {
		return nil, err
	}
	if at := s.invalidOutside(); at >= 0 {
		return nil, &InvalidError{Reason: ReasonNotUTF8, Offset: at}
	}
	return found, nil
}

// invalidOutside returns the first byte outside the taken values that is no UTF-8,
// or -1.
func (s *scanner) invalidOutside() int64 {
	from := 0
	for _, v := range append(s.taken, extent{start: uint32(len(s.raw))}) {
		if at := firstInvalid(s.raw[from:v.start]); at >= 0 {
			return int64(from) + at
		}
		from = int(v.end)
	}
	return -1
}

// document checks the whole of raw.
func (s *scanner) document(max int64) error {
	if n := int64(len(s.raw)); n > max {
		return &InvalidError{Reason: ReasonTooLarge, Offset: max}
	}
	if s.pick == nil {
		if at := firstInvalid(s.raw); at >= 0 {
			return &InvalidError{Reason: ReasonNotUTF8, Offset: at}
		}
	}
	s.unsorted = make([]uint64, len(s.raw)/128+1)
	start := s.space(0)
	switch {
	case len(s.raw) >= 3 && s.raw[0] == 0xEF && s.raw[1] == 0xBB && s.raw[2] == 0xBF:
		return &InvalidError{Reason: ReasonSyntax, Offset: 0}
	case s.at(start) != '{':
		return &InvalidError{Reason: ReasonNotObject, Offset: int64(start)}
	}
	end, bad := s.object(start, 1)
	if bad != nil {
		return bad
	}
	if end = s.space(end); end < len(s.raw) {
		return &InvalidError{Reason: ReasonTrailing, Offset: int64(end)}
	}
	slices.SortFunc(s.large, func(a, b extent) int { return int(int64(a.start) - int64(b.start)) })
	return nil
}

// firstInvalid returns the offset of the first byte of raw that is no UTF-8, or -1.
func firstInvalid(raw []byte) int64 {
	if utf8.Valid(raw) { // much faster than the loop
		return -1
	}
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return -1
}

// offsets are kept as uint32: HardMax must fit.
const _ = uint32(math.MaxUint32 - HardMax)
