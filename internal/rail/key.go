package rail

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Key names one matter of one firm. A matter id alone is never a key: two firms
// may use the same one.
type Key struct {
	Firm   UUID `json:"firm_id"`
	Matter UUID `json:"matter_id"`
}

// String returns firm/matter, the form that railctl reads and prints.
func (k Key) String() string { return k.Firm.String() + "/" + k.Matter.String() }

// ParseKey reads the firm/matter form of String.
func ParseKey(s string) (Key, error) {
	if len(s) != 73 || s[36] != '/' {
		return Key{}, fmt.Errorf("%.80q is not a matter key: want FIRM_UUID/MATTER_UUID", s)
	}
	firm, err := ParseUUID(s[:36])
	if err != nil {
		return Key{}, fmt.Errorf("firm of key: %w", err)
	}
	matter, err := ParseUUID(s[37:])
	if err != nil {
		return Key{}, fmt.Errorf("matter of key: %w", err)
	}
	return Key{Firm: firm, Matter: matter}, nil
}

// Compare orders keys by firm, then matter: the order in which every transaction
// of the rail locks job rows, so that no two of them can deadlock.
func (k Key) Compare(o Key) int {
	return cmp.Or(slices.Compare(k.Firm[:], o.Firm[:]), slices.Compare(k.Matter[:], o.Matter[:]))
}

// Buckets is the number of hash buckets that facts and matters are spread over.
const Buckets = 64

// Bucket returns the hash bucket of a matter (or, for a fact without one, of its
// firm): the first byte of SHA-256 over the identifier's sixteen bytes, modulo
// 64. The SQL function ops.matter_bucket is the same function; shared vectors
// hold the two together.
func Bucket(id UUID) int {
	sum := sha256.Sum256(id[:])
	return int(sum[0] & (Buckets - 1))
}

// BucketVectors are identifiers with their buckets, for whoever computes buckets
// in another language.
func BucketVectors() map[string]int {
	return map[string]int{
		"00000000-0000-0000-0000-000000000000": 55,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": 26,
		"01234567-89ab-cdef-0123-456789abcdef": 34,
		"cacacaca-0000-8000-8000-000000000002": 4,
		"0f7c1f2e-5a6b-4c3d-8e9f-a1b2c3d4e5f6": 59,
	}
}
