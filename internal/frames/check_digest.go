package frames

import (
	"crypto/sha256"
	"hash"
	"unicode/utf8"
)

// canon writes the RFC 8785 canonical form of a checked document straight into a
// hash. Objects whose keys stand in canonical order, as the scanner saw, stream
// through; of the others it lists and sorts the keys first.
type canon struct {
	*scanner
	hash hash.Hash
	buf  []byte // gathers small pieces: one Write for each would cost more than hashing
}

const (
	canonBuffer = 4096
	maxNumber   = 32 // bytes of a canonical number: 25 are enough
)

// digest returns the SHA-256 of the canonical form of the checked document.
func (s *scanner) digest() (sum [32]byte) {
	s.keys = s.keys[:0]
	c := canon{scanner: s, hash: sha256.New(), buf: make([]byte, 0, canonBuffer)}
	c.value(s.space(0))
	c.flush()
	c.hash.Sum(sum[:0])
	return sum
}

func (c *canon) flush() {
	_, _ = c.hash.Write(c.buf) // a hash never fails
	c.buf = c.buf[:0]
}

// room makes room for n bytes, at most canonBuffer.
func (c *canon) room(n int) {
	if n > cap(c.buf)-len(c.buf) {
		c.flush()
	}
}

func (c *canon) byte(b byte) {
	c.room(1)
	c.buf = append(c.buf, b)
}

func (c *canon) bytes(p []byte) {
	c.room(len(p))
	if len(p) > cap(c.buf) {
		_, _ = c.hash.Write(p)
		return
	}
	c.buf = append(c.buf, p...)
}

// value writes the value at i and returns the offset after it.
func (c *canon) value(i int) int {
	switch c.raw[i] {
	case '{':
		return c.object(i)
	case '[':
		return c.array(i)
	case '"':
		return c.str(i)
	case 't', 'n':
		c.bytes(c.raw[i : i+4])
		return i + 4
	case 'f':
		c.bytes(c.raw[i : i+5])
		return i + 5
	}
	end, _ := c.numberEnd(i)
	d, _ := parseDecimal(c.raw[i:end])
	c.room(maxNumber)
	c.buf = appendNumber(c.buf, d)
	return end
}

func (c *canon) array(i int) int {
	c.byte('[')
	for i = c.space(i + 1); c.raw[i] != ']'; {
		if c.raw[i] == ',' {
			c.byte(',')
			i = c.space(i + 1)
		}
		i = c.space(c.value(i))
	}
	c.byte(']')
	return i + 1
}

func (c *canon) object(start int) int {
	if c.unsorted[start>>7]>>(start>>1&63)&1 == 1 {
		return c.unsortedObject(start)
	}
	c.byte('{')
	i := c.space(start + 1)
	for c.raw[i] != '}' {
		if c.raw[i] == ',' {
			c.byte(',')
			i = c.space(i + 1)
		}
		i = c.space(c.member(i))
	}
	c.byte('}')
	return i + 1
}

func (c *canon) unsortedObject(start int) int {
	base := len(c.keys)
	i := c.space(start + 1)
	for c.raw[i] != '}' {
		if c.raw[i] == ',' {
			i = c.space(i + 1)
		}
		c.push(i)
		colon := c.space(c.skimString(i))
		i = c.space(c.skim(c.space(colon + 1)))
	}
	c.sortKeys(c.keys[base:])
	c.byte('{')
	end := len(c.keys)
	for n := base; n < end; n++ {
		if n > base {
			c.byte(',')
		}
		c.member(int(c.keys[n]))
	}
	c.keys = c.keys[:base]
	c.byte('}')
	return i + 1
}

// member writes the key at i and its value.
func (c *canon) member(i int) int {
	colon := c.space(c.str(i))
	c.byte(':')
	return c.value(c.space(colon + 1))
}

// str writes the string at start: as it stands but for its escapes, of which
// RFC 8785 has fewer.
func (c *canon) str(start int) int {
	for i := start + 1; ; {
		switch c.raw[i] {
		case '"':
			c.bytes(c.raw[start : i+1])
			return i + 1
		case '\\':
			c.bytes(c.raw[start:i])
			var r rune
			r, i = decode(c.raw, i)
			c.rune(r)
			start = i
		default:
			i++
		}
	}
}

// rune writes one character of a string.
func (c *canon) rune(r rune) {
	const hex = "0123456789abcdef"
	c.room(6)
	switch short := shortEscape(r); {
	case short != 0:
		c.buf = append(c.buf, '\\', short)
	case r < 0x20:
		c.buf = append(c.buf, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
	default:
		c.buf = utf8.AppendRune(c.buf, r)
	}
}

// shortEscape returns the letter of r's two-character escape, or 0.
func shortEscape(r rune) byte {
	switch r {
	case '"', '\\':
		return byte(r)
	case '\b':
		return 'b'
	case '\t':
		return 't'
	case '\n':
		return 'n'
	case '\f':
		return 'f'
	case '\r':
		return 'r'
	}
	return 0
}
