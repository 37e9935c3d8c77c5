package model

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"reflect"
	"unsafe"
)

// hasher hashes states. Which states are equal it does not decide: a hash only says
// where to look.
type hasher[S comparable] struct {
	seed  maphash.Seed
	plain uintptr // bytes of a state that are hashed as they lie; 0 for none
	salt  uint64  // what seed is to those
}

func newHasher[S comparable]() hasher[S] {
	h := hasher[S]{seed: maphash.MakeSeed(), plain: plain(reflect.TypeFor[S]())}
	h.salt = maphash.Comparable(h.seed, 0)
	return h
}

// half returns the half of a state's hash that a set works with.
func (h *hasher[S]) half(s *S) uint32 {
	if h.plain > 0 {
		return uint32(hashPlain(unsafe.Pointer(s), h.plain, h.salt) >> 32)
	}
	return uint32(maphash.Comparable(h.seed, *s) >> 32)
}

// plain returns how many bytes at the start of a value are all that == looks at; 0
// for a type of which that is not so: one with gaps between its fields, or with parts
// that may be equal and differ in their bytes, or the other way round. States are
// hashed at every step, and bytes read as words take a third of the time.
func plain(t reflect.Type) uintptr {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return t.Size()
	case reflect.Array:
		if plain(t.Elem()) == t.Elem().Size() {
			return t.Size()
		}
	case reflect.Struct:
		return plainStruct(t)
	}
	return 0
}

// plainStruct is plain of a struct. What lies behind its last field does not count.
func plainStruct(t reflect.Type) (end uintptr) {
	for f := range t.Fields() {
		size := plain(f.Type)
		if f.Name == "_" || f.Offset != end || size == 0 {
			return 0
		}
		end += size
	}
	return end
}

// Odd numbers without a pattern.
const (
	mixer1 = 0xa0761d6478bd642f
	mixer2 = 0xe7037ed1a0b428db
)

// hashPlain hashes n bytes, 16 at a time; the last 16 overlap those before.
func hashPlain(p unsafe.Pointer, n uintptr, hash uint64) uint64 {
	if n < 16 {
		var padded [16]byte
		copy(padded[:], unsafe.Slice((*byte)(p), n))
		p, n = unsafe.Pointer(&padded), 16
	}
	for ; n > 16; n -= min(16, n-16) {
		hash = fold(word(p, 0)^mixer1, word(p, 8)^hash)
		p = unsafe.Add(p, min(16, n-16))
	}
	return fold(mixer2, fold(word(p, 0)^mixer1, word(p, 8)^hash))
}

// fold multiplies two words and folds the product: each of its bits hangs on all of
// theirs.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// word reads the 8 bytes at p, whatever its alignment.
func word(p unsafe.Pointer, at uintptr) uint64 {
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(p, at))[:])
}
