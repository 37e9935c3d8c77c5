package model

import "hash/maphash"

// chunkBits: states lie in pieces of this many bits, so that growing never copies
// them.
const chunkBits = 12

// set numbers states in the order they are added. It is exact: a state is known
// only if it is equal to one that was added.
//
// It is an open table of 64-bit slots over the states themselves: the upper half
// of a slot is half of the state's hash, the lower half its number plus one, zero
// an empty slot. The place of a slot is taken from the top of that same half, so
// growing needs no state again and visits both tables in order.
type set[S comparable] struct {
	seed  maphash.Seed
	slots []uint64
	shift uint // 32 minus the bits of len(slots)
	limit int  // states that the slots may hold before they double
	count int
	piece [][]S
}

// firstBits is the size of an empty table.
const firstBits = 10

func newSet[S comparable]() *set[S] {
	t := &set[S]{seed: maphash.MakeSeed()}
	t.resize(firstBits)
	return t
}

// at returns the state of a number below count; it stays where it is.
func (t *set[S]) at(id uint32) *S {
	return &t.piece[id>>chunkBits][id&(1<<chunkBits-1)]
}

// find returns a state's number, or its hash's upper half and the empty slot where
// it would go.
func (t *set[S]) find(s *S) (id uint32, half uint32, slot uint32, known bool) {
	half = uint32(maphash.Comparable(t.seed, *s) >> 32)
	mask := uint32(len(t.slots) - 1)
	for slot = half >> t.shift; ; slot = (slot + 1) & mask {
		word := t.slots[slot]
		if word == 0 {
			return 0, half, slot, false
		}
		if uint32(word>>32) == half {
			if id = uint32(word) - 1; *t.at(id) == *s {
				return id, half, slot, true
			}
		}
	}
}

// add puts a state that find did not know into the slot that find named.
func (t *set[S]) add(s *S, half, slot uint32) uint32 {
	id := uint32(t.count)
	if id&(1<<chunkBits-1) == 0 {
		t.piece = append(t.piece, make([]S, 1<<chunkBits))
	}
	*t.at(id) = *s
	t.slots[slot] = uint64(half)<<32 | uint64(id+1)
	if t.count++; t.count > t.limit {
		t.resize(32 - t.shift + 1)
	}
	return id
}

// resize moves every slot into a table of 1<<bits.
func (t *set[S]) resize(bits uint) {
	old := t.slots
	t.slots = make([]uint64, 1<<bits)
	t.shift = 32 - bits
	t.limit = len(t.slots) / 8 * 5
	mask := uint32(len(t.slots) - 1)
	for _, word := range old {
		if word == 0 {
			continue
		}
		slot := uint32(word>>32) >> t.shift
		for t.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.slots[slot] = word
	}
}
