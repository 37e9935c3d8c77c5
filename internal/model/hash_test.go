package model

import (
	"reflect"
	"testing"
	"unsafe"
)

type whole struct {
	A uint16
	B bool
	C [3]uint8
	D struct{ E, F uint16 }
	G int8 // padding behind it
}

type gap struct {
	A uint8
	B uint32
}

// Bytes are hashed only of types in which they say what == says.
func TestPlain(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		value any
		want  uintptr
	}{
		{uint8(0), 1},
		{[3]uint16{}, 6},
		{whole{}, 11},
		{[2]whole{}, 0}, // a gap after the first
		{gap{}, 0},
		{struct {
			A [2]uint32
			B bool
		}{}, 9},
		{struct{ A, _ uint8 }{}, 0},
		{struct{ A string }{}, 0},
		{struct{ A float64 }{}, 0},
		{struct{ A *int }{}, 0},
		{struct{ A any }{}, 0},
		{struct{}{}, 0},
	} {
		if got := plain(reflect.TypeOf(row.value)); got != row.want {
			t.Errorf("%T: %d bytes, want %d", row.value, got, row.want)
		}
	}
}

// Every bit counts at every length, and no byte behind the length does.
func TestHashPlain(t *testing.T) {
	t.Parallel()
	const salt = 0x9e3779b97f4a7c15 // a random number in use; a small one would mix nothing
	for n := uintptr(1); n <= 70; n++ {
		bytes := make([]byte, n+1)
		p := unsafe.Pointer(&bytes[0])
		seen := map[uint64]bool{hashPlain(p, n, salt): true}
		for bit := range int(n) * 8 {
			bytes[bit/8] ^= 1 << (bit % 8)
			seen[hashPlain(p, n, salt)] = true
			bytes[bit/8] ^= 1 << (bit % 8)
		}
		if len(seen) != int(n)*8+1 {
			t.Errorf("%d bytes: %d hashes of %d values", n, len(seen), n*8+1)
		}
		bytes[n] = 1
		if !seen[hashPlain(p, n, salt)] {
			t.Errorf("%d bytes: the one behind them counts", n)
		}
	}
}

// Small numbers in few bytes, as states have them, spread over the table.
func TestHashesSpread(t *testing.T) {
	t.Parallel()
	h := newHasher[[12]uint8]()
	seen := map[uint32]int{}
	for i := range 1 << 16 {
		s := [12]uint8{uint8(i & 3), uint8(i >> 2 & 3), uint8(i >> 4 & 3), uint8(i >> 6 & 3), 7: uint8(i >> 8 & 15), 11: uint8(i >> 12)}
		seen[h.half(&s)>>20]++
	}
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	// 16 of each of 4096 on average: by chance alone none is empty, and none has 64
	if len(seen) < 4096*99/100 || most > 64 {
		t.Errorf("%d of 4096 places are taken, one by %d", len(seen), most)
	}
}

// What is not plain is hashed all the same: equal states alike.
func TestHashOfFields(t *testing.T) {
	t.Parallel()
	type named struct {
		A uint8
		B string
	}
	h := newHasher[named]()
	a, b := named{1, "b"}, named{1, string([]byte{'b'})}
	if h.plain != 0 || h.half(&a) != h.half(&b) {
		t.Errorf("%d bytes are plain; %d, %d", h.plain, h.half(&a), h.half(&b))
	}
}
