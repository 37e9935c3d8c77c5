package rail

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
)

// UUID is a 128-bit identifier in network byte order. The zero value is the nil
// UUID and means "none".
type UUID [16]byte

// NewUUID returns a random (version 4) UUID, RFC 9562 section 5.4.
func NewUUID() UUID {
	var u UUID
	// crypto/rand.Read never returns an error: it crashes the process when the
	// system has no randomness, which is right, as a run_id must never repeat.
	_, _ = rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// ParseUUID reads the canonical text form only: 36 characters, lower or upper
// case hexadecimal, hyphens at 8, 13, 18 and 23. Braces, the urn: prefix and the
// bare 32 digits are refused, so that one identifier has one spelling.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, fmt.Errorf("%.40q is not a UUID: want the form 01234567-89ab-cdef-0123-456789abcdef", s)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%.40q is not a UUID: %w", s, err)
	}
	return u, nil
}

// String returns the canonical lower-case form.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether u is the nil UUID.
func (u UUID) IsZero() bool { return u == UUID{} }

// MarshalText implements encoding.TextMarshaler.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with the rule of ParseUUID.
func (u *UUID) UnmarshalText(b []byte) (err error) {
	*u, err = ParseUUID(string(b))
	return err
}

// Value implements driver.Valuer; the nil UUID is stored as NULL.
func (u UUID) Value() (driver.Value, error) {
	if u.IsZero() {
		return nil, nil
	}
	return u.String(), nil
}

// Scan implements sql.Scanner; NULL becomes the nil UUID.
func (u *UUID) Scan(src any) (err error) {
	switch v := src.(type) {
	case nil:
		*u = UUID{}
	case string:
		*u, err = ParseUUID(v)
	case [16]byte:
		*u = v
	case []byte:
		*u, err = ParseUUID(string(v))
	default:
		err = fmt.Errorf("cannot read a UUID from %T", src)
	}
	return err
}
