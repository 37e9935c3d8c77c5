package model

// pieceBits: states lie in pieces of this many bits, so that growing never copies
// them.
const pieceBits = 12

// set numbers states in the order they are added. It is exact: a state is known
// only if it is equal to one that was added.
//
// It is an open table of 64-bit slots over the states themselves: the upper half
// of a slot is half of the state's hash, the lower half its number plus one, zero
// an empty slot. The place of a slot is taken from the top of that same half, so
// growing needs no state again and visits both tables in order.
type set[S comparable] struct {
	hash  hasher[S]
	slots []uint64
	shift uint // 32 minus the bits of len(slots)
	limit int  // states that the slots may hold before they grow
	count int
	piece [][]node[S]
}

// node is a state and the number of the one by which it was discovered.
type node[S comparable] struct {
	state  S
	parent uint32
}

// An empty table has firstBits. It grows fourfold while it has less than smallBits: its
// memory is little then, and moving slots much of a short search.
const (
	firstBits = 10
	smallBits = 16
)

func newSet[S comparable]() *set[S] {
	t := &set[S]{hash: newHasher[S]()}
	t.resize(firstBits)
	return t
}

// at returns the state of a number below count; it stays where it is.
func (t *set[S]) at(id uint32) *S { return &t.node(id).state }

// node is at with the parent.
func (t *set[S]) node(id uint32) *node[S] {
	return &t.piece[id>>pieceBits][id&(1<<pieceBits-1)]
}

// run returns the states from first on and before end that lie in one piece. They
// are never written again, so they may be read while others are added.
func (t *set[S]) run(first, end uint32) []node[S] {
	piece := t.piece[first>>pieceBits]
	from := first & (1<<pieceBits - 1)
	return piece[from:min(int(from+end-first), len(piece))]
}

// first returns the slot where a search for that half begins.
func (t *set[S]) first(half uint32) uint64 { return t.slots[half>>t.shift] }

// find returns a state's number, or the empty slot where it would go.
func (t *set[S]) find(s *S, half uint32) (id, slot uint32, known bool) {
	mask := uint32(len(t.slots) - 1)
	for slot = half >> t.shift; ; slot = (slot + 1) & mask {
		word := t.slots[slot]
		if word == 0 {
			return 0, slot, false
		}
		if id = uint32(word) - 1; uint32(word>>32) == half && *t.at(id) == *s {
			return id, slot, true
		}
	}
}

// add puts a state that find did not know into the slot that find named.
func (t *set[S]) add(s *S, parent, half, slot uint32) uint32 {
	id := uint32(t.count)
	if id&(1<<pieceBits-1) == 0 {
		t.piece = append(t.piece, make([]node[S], 1<<pieceBits))
	}
	n := t.node(id)
	n.state, n.parent = *s, parent
	t.slots[slot] = uint64(half)<<32 | uint64(id+1)
	if t.count++; t.count > t.limit {
		t.grow()
	}
	return id
}

func (t *set[S]) grow() {
	bits := 32 - t.shift
	if bits < smallBits {
		bits++
	}
	t.resize(bits + 1)
}

// resize moves every slot into a table of 1<<bits.
func (t *set[S]) resize(bits uint) {
	old := t.slots
	t.slots = make([]uint64, 1<<bits)
	t.shift = 32 - bits
	t.limit = len(t.slots) / 16 * 13
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
