package frames

import (
	"cmp"
	"unicode/utf16"
	"unicode/utf8"
)

// str checks the string at i (its opening quote) and returns the offset after it.
// Whether raw is valid UTF-8 is not looked at here.
func (s *scanner) str(i int) (int, *InvalidError) {
	for i++; i < len(s.raw); {
		switch c := s.raw[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			next, bad := s.escape(i)
			if bad != nil {
				return 0, bad
			}
			i = next
		case c == 0:
			return 0, s.fail(ReasonNUL, i)
		case c < 0x20:
			return 0, s.fail(ReasonSyntax, i)
		default:
			i++
		}
	}
	return 0, s.fail(ReasonSyntax, i)
}

// escape checks the escape at i (its backslash) and returns the offset after it.
func (s *scanner) escape(i int) (int, *InvalidError) {
	switch s.at(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
	default:
		return 0, s.fail(ReasonSyntax, i)
	}
	r, next := decode(s.raw, i)
	switch {
	case r < 0:
		return 0, s.fail(ReasonSyntax, i)
	case r == 0:
		return 0, s.fail(ReasonNUL, i)
	case utf16.IsSurrogate(r):
		return 0, s.fail(ReasonSurrogate, i)
	}
	return next, nil
}

// decode returns the character at i of a string, unescaped, and the offset after
// it. A lone surrogate comes back as itself, bad hexadecimal digits as -1.
func decode(raw []byte, i int) (rune, int) {
	if raw[i] != '\\' {
		r, n := utf8.DecodeRune(raw[i:])
		return r, i + n
	}
	if raw[i+1] != 'u' {
		return simpleEscape(raw[i+1]), i + 2
	}
	r := hex4(raw, i)
	if r >= 0 && utf16.IsSurrogate(r) {
		if both := utf16.DecodeRune(r, hex4(raw, i+6)); both != utf8.RuneError {
			return both, i + 12
		}
	}
	return r, i + 6
}

func simpleEscape(c byte) rune {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return rune(c)
}

// hex4 returns the value of the \uXXXX at i, or -1 when there is none.
func hex4(raw []byte, i int) rune {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range raw[i+2 : i+6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// compareKeys orders the strings whose opening quotes are at a and b by the
// UTF-16 code units of their unescaped text, as RFC 8785 section 3.2.3 wants.
func compareKeys(raw []byte, a, b int) int {
	a, b = a+1, b+1
	for {
		x, y := raw[a], raw[b]
		switch {
		case x == '"' && y == '"':
			return 0
		case x == '"':
			return -1
		case y == '"':
			return 1
		case x == y && x < utf8.RuneSelf && x != '\\':
			a, b = a+1, b+1
			continue
		}
		var r, q rune
		r, a = decode(raw, a)
		q, b = decode(raw, b)
		if r != q {
			return cmp.Or(cmp.Compare(firstUnit(r), firstUnit(q)), cmp.Compare(r, q))
		}
	}
}

// firstUnit returns the first UTF-16 code unit of r.
func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xD800 + (r-0x10000)>>10
}

// keyIs reports whether the checked string at i is name.
func (s *scanner) keyIs(i int, name string) bool {
	i++
	for _, want := range name {
		if s.raw[i] == '"' {
			return false
		}
		var r rune
		if r, i = decode(s.raw, i); r != want {
			return false
		}
	}
	return s.raw[i] == '"'
}
