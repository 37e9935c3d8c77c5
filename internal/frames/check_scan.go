package frames

import (
	"bytes"
	"slices"
	"sort"
)

// largeSpan is the size in bytes from which the end of an object or array is
// remembered, so that the digest steps over it without reading it. At most
// MaxDepth of them cover any byte, hence at most a fifth of raw in all.
const largeSpan = 4096

// scanner checks one document; it is thrown away afterwards.
type scanner struct {
	raw      []byte
	keys     []uint32 // offsets of the keys of all open objects, a stack
	unsorted []uint64 // a bit for each object whose keys are not in canonical order
	large    []extent // objects and arrays of at least largeSpan bytes
	// pick, when set, is asked for every member of the document: it returns the
	// end of the value and true when it takes the value unchecked.
	pick  func(key, value int) (int, bool)
	taken []extent // the values so taken, in their order
}

type extent struct{ start, end uint32 }

func (s *scanner) fail(r Reason, at int) *InvalidError {
	return &InvalidError{Reason: r, Offset: int64(at)}
}

// at returns the byte at i, or 0 (which no JSON text has) past the end.
func (s *scanner) at(i int) byte {
	if i < len(s.raw) {
		return s.raw[i]
	}
	return 0
}

// space returns the first offset from i on that is no white space.
func (s *scanner) space(i int) int {
	for i < len(s.raw) && (s.raw[i] == ' ' || s.raw[i] == '\n' || s.raw[i] == '\r' || s.raw[i] == '\t') {
		i++
	}
	return i
}

// value checks the value at i and returns the offset after it.
func (s *scanner) value(i, depth int) (int, *InvalidError) {
	switch c := s.at(i); c {
	case '"':
		return s.str(i)
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || isDigit(c) {
			return s.number(i)
		}
		return 0, s.fail(ReasonSyntax, i)
	}
}

func (s *scanner) literal(i int, word string) (int, *InvalidError) {
	if !bytes.HasPrefix(s.raw[i:], []byte(word)) {
		return 0, s.fail(ReasonSyntax, i)
	}
	return i + len(word), nil
}

func (s *scanner) array(start, depth int) (int, *InvalidError) {
	if depth > MaxDepth {
		return 0, s.fail(ReasonDepth, start)
	}
	i := s.space(start + 1)
	if s.at(i) == ']' {
		return i + 1, nil
	}
	for {
		end, bad := s.value(i, depth+1)
		if bad != nil {
			return 0, bad
		}
		i = s.space(end)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			s.closed(start, i+1)
			return i + 1, nil
		default:
			return 0, s.fail(ReasonSyntax, i)
		}
	}
}

func (s *scanner) object(start, depth int) (int, *InvalidError) {
	if depth > MaxDepth {
		return 0, s.fail(ReasonDepth, start)
	}
	base, sorted := len(s.keys), true
	i := s.space(start + 1)
	if s.at(i) == '}' {
		return i + 1, nil
	}
	for {
		key := i
		end, bad := s.member(key, depth)
		if bad != nil {
			return 0, bad
		}
		if sorted && len(s.keys) > base {
			sorted = compareKeys(s.raw, int(s.keys[len(s.keys)-1]), key) < 0
		}
		s.push(key)
		i = s.space(end)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			s.closed(start, i+1)
			return i + 1, s.endObject(start, base, sorted)
		default:
			return 0, s.fail(ReasonSyntax, i)
		}
	}
}

// member checks the key at i and its value.
func (s *scanner) member(i, depth int) (int, *InvalidError) {
	if s.at(i) != '"' {
		return 0, s.fail(ReasonSyntax, i)
	}
	colon, bad := s.str(i)
	if bad != nil {
		return 0, bad
	}
	if colon = s.space(colon); s.at(colon) != ':' {
		return 0, s.fail(ReasonSyntax, colon)
	}
	value := s.space(colon + 1)
	if s.pick != nil && depth == 1 {
		if end, taken := s.pick(i, value); taken && end < 0 {
			return 0, s.fail(ReasonSyntax, value)
		} else if taken {
			return end, nil
		}
	}
	return s.value(value, depth+1)
}

// endObject refuses duplicate keys and takes the object's keys off the stack.
// Keys in canonical order cannot repeat, so only the others are sorted.
func (s *scanner) endObject(start, base int, sorted bool) *InvalidError {
	keys := s.keys[base:]
	s.keys = s.keys[:base]
	if sorted {
		return nil
	}
	// An object never starts right after another's brace: half the offset names it.
	s.unsorted[start>>7] |= 1 << (start >> 1 & 63)
	s.sortKeys(keys)
	twin := -1
	for i := 1; i < len(keys); i++ {
		if compareKeys(s.raw, int(keys[i-1]), int(keys[i])) == 0 {
			if at := int(max(keys[i-1], keys[i])); twin < 0 || at < twin {
				twin = at
			}
		}
	}
	if twin >= 0 {
		return s.fail(ReasonDuplicateKey, twin)
	}
	return nil
}

// push adds a key to the stack. It doubles the stack, as append's growth by a
// quarter would throw away several times the final size on the way.
func (s *scanner) push(key int) {
	if len(s.keys) == cap(s.keys) {
		s.keys = slices.Grow(s.keys, max(64, len(s.keys)))
	}
	s.keys = append(s.keys, uint32(key))
}

func (s *scanner) sortKeys(keys []uint32) {
	slices.SortFunc(keys, func(a, b uint32) int { return compareKeys(s.raw, int(a), int(b)) })
}

// closed remembers a large object or array.
func (s *scanner) closed(start, end int) {
	if end-start >= largeSpan {
		s.large = append(s.large, extent{uint32(start), uint32(end)})
	}
}

// skim returns the offset after the value at i without checking the value, or -1
// when raw ends first.
func (s *scanner) skim(i int) int {
	switch s.at(i) {
	case '"':
		return s.skimString(i)
	case '{', '[':
		n := sort.Search(len(s.large), func(n int) bool { return int(s.large[n].start) >= i })
		if n < len(s.large) && int(s.large[n].start) == i && s.pick == nil {
			return int(s.large[n].end)
		}
		return s.skimNested(i)
	}
	n := bytes.IndexAny(s.raw[i:], ",]} \n\r\t")
	if n <= 0 {
		return -1
	}
	return i + n
}

func (s *scanner) skimNested(i int) int {
	for depth := 0; i < len(s.raw); i++ {
		switch s.raw[i] {
		case '"':
			if i = s.skimString(i) - 1; i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func (s *scanner) skimString(i int) int {
	for j := i + 1; ; j++ {
		n := bytes.IndexByte(s.raw[j:], '"')
		if n < 0 {
			return -1
		}
		run := j + n
		for run > j && s.raw[run-1] == '\\' {
			run--
		}
		if j += n; (j-run)%2 == 0 {
			return j + 1
		}
	}
}
