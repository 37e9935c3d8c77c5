package client

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Regenerate asks for a fresh Brief.
const Regenerate = "brief.regenerate"

// Intent is what a person asked for, once. Its id makes it one: the same id with other
// content is another intent's, and refused.
type Intent struct {
	ID      string `json:"id"` // UUID; NewID makes one
	Firm    string `json:"firm"`
	Matter  string `json:"matter"`
	Kind    string `json:"kind"`
	Payload []byte `json:"payload,omitempty"` // stays here: only its digest is sent
	// Expected is the revision that the person saw; nil where it does not matter.
	Expected *int64 `json:"expected,omitempty"`
}

// Digest is the SHA-256 of the payload, in hexadecimal digits.
func (i Intent) Digest() string {
	sum := sha256.Sum256(i.Payload)
	return hex.EncodeToString(sum[:])
}

func (i Intent) check() error {
	for name, id := range map[string]string{"id": i.ID, "firm": i.Firm, "matter": i.Matter} {
		if !isUUID(id) {
			return fmt.Errorf("client: %s %.40q of the intent is not a lower-case UUID", name, id)
		}
	}
	if i.Kind == "" {
		return errors.New("client: the intent has no kind: " + Regenerate + " is one")
	}
	return nil
}

// same reports whether two intents are one: everything but the id's owner may be told.
func (i Intent) same(o Intent) bool {
	return i.ID == o.ID && i.Firm == o.Firm && i.Matter == o.Matter && i.Kind == o.Kind && i.Digest() == o.Digest() &&
		(i.Expected == nil) == (o.Expected == nil) && (i.Expected == nil || *i.Expected == *o.Expected)
}

// NewID is a random UUID.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// isUUID accepts the one spelling that is also safe in a path and in a file's name.
func isUUID(s string) bool {
	if len(s) != 36 || strings.Trim(s, "0123456789abcdef-") != "" {
		return false
	}
	for i, r := range s {
		if (r == '-') != (i == 8 || i == 13 || i == 18 || i == 23) {
			return false
		}
	}
	return true
}

// Receipt is what was decided of an intent.
type Receipt struct {
	IntentID      string          `json:"intent_id"`
	Firm          string          `json:"firm_id"`
	Matter        string          `json:"matter_id"`
	Outcome       string          `json:"outcome"` // accepted, refused, unknown
	Replayed      bool            `json:"replayed"`
	Epoch         int64           `json:"epoch"` // under which it was decided
	Writer        string          `json:"writer"`
	Revision      int64           `json:"revision"` // of the matter, when it was told
	Result        json.RawMessage `json:"result,omitempty"`
	ResultDigest  string          `json:"result_digest,omitempty"`
	PayloadDigest string          `json:"payload_digest"`
	DecidedAt     *time.Time      `json:"decided_at,omitempty"`
}

// Authority is who decides for a matter.
type Authority struct {
	Scope    string `json:"scope"`
	Epoch    int64  `json:"epoch"`
	Writer   string `json:"writer"`
	Kind     string `json:"kind"`               // rail, external
	Endpoint string `json:"endpoint,omitempty"` // of the writer; empty where it has named none
	State    string `json:"state"`              // open, closing, sealed
	Revision int64  `json:"revision"`
}
