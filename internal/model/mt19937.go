package model

import "math/bits"

// Twister is the generator MT19937 with 32-bit outputs, for walks whose digits
// somebody else can repeat. It is no source of secrets. Make one with NewTwister.
type Twister struct {
	state [twisterWords]uint32
	next  int
}

const (
	twisterWords  = 624
	twisterMiddle = 397
	twisterBase   = 19650218 // seed of the array method, from the reference code
)

// NewTwister seeds a generator by the reference's array method with the one-word
// key seed.
func NewTwister(seed uint32) *Twister {
	t := &Twister{}
	s := &t.state
	s[0] = twisterBase
	for i := 1; i < twisterWords; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i := 1
	for range twisterWords { // the key is shorter than the state, so the state counts the rounds
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + seed
		i = t.wrap(i + 1)
	}
	for range twisterWords - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		i = t.wrap(i + 1)
	}
	s[0] = 1 << 31
	t.next = twisterWords
	return t
}

// wrap returns to word 1 after the last, carrying the last into word 0.
func (t *Twister) wrap(i int) int {
	if i < twisterWords {
		return i
	}
	t.state[0] = t.state[twisterWords-1]
	return 1
}

// Uint32 returns the next output.
func (t *Twister) Uint32() uint32 {
	if t.next == twisterWords {
		t.twist()
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// twist makes the next 624 words.
func (t *Twister) twist() {
	s := &t.state
	for i := range s {
		y := s[i]&(1<<31) | s[(i+1)%twisterWords]&(1<<31-1)
		s[i] = s[(i+twisterMiddle)%twisterWords] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	t.next = 0
}

// Choose returns a number below n, each as likely: the top bits of an output, as
// many as n has, and another output while they are n or more. n must be at least
// 1; for 1 outputs are taken too.
func (t *Twister) Choose(n int) int {
	drop := 32 - bits.Len32(uint32(n))
	for {
		if r := int(t.Uint32() >> drop); r < n {
			return r
		}
	}
}

// Float64 returns a number in [0, 1) of 53 bits: the top 27 of one output and the
// top 26 of the next.
func (t *Twister) Float64() float64 {
	high, low := t.Uint32()>>5, t.Uint32()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}
