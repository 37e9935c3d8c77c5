package frames

import (
	"math"
	"strconv"
)

const (
	// maxLiteral is the longest number in bytes. Together with maxScale it keeps
	// what jsonb prints of an accepted number acceptable again.
	maxLiteral = 1024
	// maxScale is the most decimal places; Postgres stores 16383, a double needs
	// at most 340.
	maxScale = 700
	// maxExponent is the largest exponent looked at.
	maxExponent = 2000
)

// decimal is the value 0.d1d2...dk * 10^point; no digits mean zero. More than 17
// significant digits are no double's shortest text and are not kept.
type decimal struct {
	neg    bool
	digits [17]byte
	k      int
	point  int
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digitsFrom returns the offset after the digits at i.
func (s *scanner) digitsFrom(i int) int {
	for isDigit(s.at(i)) {
		i++
	}
	return i
}

// numberEnd returns the offset after the number at i by the grammar of RFC 8259,
// or the offset of the byte that breaks it and false.
func (s *scanner) numberEnd(i int) (int, bool) {
	if s.at(i) == '-' {
		i++
	}
	from := i
	i = s.digitsFrom(i)
	if i == from || (s.raw[from] == '0' && i > from+1) {
		return i, false
	}
	if s.at(i) == '.' {
		from = i + 1
		if i = s.digitsFrom(from); i == from {
			return i, false
		}
	}
	if s.at(i)|0x20 == 'e' {
		if i++; s.at(i) == '+' || s.at(i) == '-' {
			i++
		}
		from = i
		if i = s.digitsFrom(from); i == from {
			return i, false
		}
	}
	return i, true
}

// number checks the number at i and returns the offset after it.
func (s *scanner) number(i int) (int, *InvalidError) {
	end, ok := s.numberEnd(i)
	if !ok {
		return 0, s.fail(ReasonSyntax, end)
	}
	if !exact(s.raw[i:end]) {
		return 0, s.fail(ReasonNumber, i)
	}
	return end, nil
}

// exact reports whether lit keeps its decimal value as a double, and can be stored.
func exact(lit []byte) bool {
	if len(lit) > maxLiteral {
		return false
	}
	d, ok := parseDecimal(lit)
	if !ok {
		return false
	}
	// Every decimal of 15 digits survives a double, away from its limits.
	if d.k == 0 || (d.k <= 15 && d.point > -300 && d.point < 300) {
		return true
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || f == 0 || math.IsInf(f, 0) {
		return false
	}
	var buf [32]byte
	back, _ := parseDecimal(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))
	return d == back
}

// parseDecimal reads a number of correct grammar. It reports false for more than
// 17 significant digits, and for a scale or exponent beyond the limits.
func parseDecimal(lit []byte) (decimal, bool) {
	var d decimal
	i, seen, scale := 0, 0, 0 // seen: digits since the first that is not 0
	fraction := false
	if lit[0] == '-' {
		d.neg, i = true, 1
	}
	for ; i < len(lit) && lit[i]|0x20 != 'e'; i++ {
		if lit[i] == '.' {
			fraction = true
			continue
		}
		if fraction {
			scale++
		}
		if seen == 0 && lit[i] == '0' {
			continue
		}
		if seen++; lit[i] != '0' {
			if seen > len(d.digits) {
				return d, false
			}
			d.k = seen
		}
		if seen <= len(d.digits) {
			d.digits[seen-1] = lit[i]
		}
	}
	exponent := 0
	if i < len(lit) {
		exponent = parseExponent(lit[i+1:])
	}
	clear(d.digits[d.k:]) // trailing zeros: equal values must be equal structs
	if d.k > 0 {
		d.point = seen - scale + exponent
	}
	return d, scale-exponent <= maxScale && -maxExponent <= exponent && exponent <= maxExponent
}

// parseExponent reads an exponent, stopping just beyond maxExponent.
func parseExponent(text []byte) int {
	neg := text[0] == '-'
	n := 0
	for _, c := range text {
		if isDigit(c) && n <= maxExponent {
			n = n*10 + int(c-'0')
		}
	}
	if neg {
		return -n
	}
	return n
}

// appendNumber appends the text that ECMAScript's Number::toString gives for d,
// whose digits are the shortest of their double.
func appendNumber(out []byte, d decimal) []byte {
	if d.k == 0 {
		return append(out, '0')
	}
	if d.neg {
		out = append(out, '-')
	}
	digits := d.digits[:d.k]
	switch {
	case d.k <= d.point && d.point <= 21:
		return appendZeros(append(out, digits...), d.point-d.k)
	case 0 < d.point && d.point <= 21:
		out = append(append(out, digits[:d.point]...), '.')
		return append(out, digits[d.point:]...)
	case -6 < d.point && d.point <= 0:
		return append(appendZeros(append(out, "0."...), -d.point), digits...)
	}
	out = append(out, digits[0])
	if d.k > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	out = append(out, 'e')
	if d.point > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(d.point-1), 10)
}

func appendZeros(out []byte, n int) []byte {
	for ; n > 0; n-- {
		out = append(out, '0')
	}
	return out
}
