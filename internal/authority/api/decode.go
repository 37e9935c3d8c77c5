package api

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// asked is the body of a submission, as it stands in the request.
type asked struct {
	id, kind, digest string
	expected, epoch  *int64
}

// decode reads one object of known fields, each once and in its own spelling: two
// readers of one body must not see two intents. Its errors quote no value.
func decode(body []byte, key rail.Key) (authority.Intent, error) {
	var a asked
	if err := a.read(body); err != nil {
		return authority.Intent{}, err
	}
	return a.intent(key)
}

func (a *asked) read(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the body is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, _ := t.(string) // a key is a string, or there is an error
		if err != nil {
			return errors.New("the body is not JSON")
		}
		into := a.field(name)
		if into == nil {
			return fmt.Errorf("%.40q is no field of an intent: use intent_id, kind, expected_revision, payload_digest and epoch", name)
		}
		if seen[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if err := dec.Decode(into); err != nil {
			return fmt.Errorf("%s has a value of the wrong type, or none", name)
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("the body is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the intent")
	}
	return nil
}

// field is where the value of a field goes, nil where there is none of that name.
func (a *asked) field(name string) any {
	switch name {
	case "intent_id":
		return &a.id
	case "kind":
		return &a.kind
	case "payload_digest":
		return &a.digest
	case "expected_revision":
		return &a.expected
	case "epoch":
		return &a.epoch
	}
	return nil
}

func (a *asked) intent(key rail.Key) (i authority.Intent, err error) {
	i = authority.Intent{Key: key, Kind: a.kind, Expected: a.expected, Epoch: a.epoch}
	if i.ID, err = rail.ParseUUID(a.id); err != nil || i.ID.IsZero() {
		return i, errors.New("intent_id is not a UUID of the form 01234567-89ab-cdef-0123-456789abcdef")
	}
	if a.kind != authority.Regenerate {
		return i, errors.New("kind is not known: use " + authority.Regenerate)
	}
	if n, err := hex.Decode(i.Digest[:], []byte(a.digest[:min(len(a.digest), 64)])); err != nil || n != 32 || len(a.digest) != 64 {
		return i, errors.New("payload_digest is not a SHA-256 in 64 hexadecimal digits")
	}
	if a.expected != nil && *a.expected < 0 {
		return i, errors.New("expected_revision is negative")
	}
	if a.epoch != nil && *a.epoch < 1 {
		return i, errors.New("epoch is not positive")
	}
	return i, nil
}
