package brief

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"briefrail/internal/rail"
)

// maxRequestBytes is far above any honest request, which carries ids only.
const maxRequestBytes = 64 << 10

// Request is the body of POST /v1/build.
type Request struct {
	Key        rail.Key
	Generation int64     // 1 or more; echoed
	Run        rail.UUID // the attempt; also the Idempotency-Key
	Attempt    int64     // 1 or more
	RetryOf    rail.UUID // the run before it; nil for none
	// Deadline is checked for its form and otherwise left alone: two machines'
	// clocks may differ by more than a build takes. The caller's connection is what
	// ends a build.
	Deadline time.Time
}

// badRequest is an error of the caller, which no repetition will mend.
type badRequest struct {
	status int
	field  string // empty when no field is to blame
	text   string
}

func (e *badRequest) Error() string {
	if e.field == "" {
		return e.text
	}
	return e.field + ": " + e.text
}

func refused(field, format string, args ...any) error {
	return &badRequest{status: http.StatusBadRequest, field: field, text: fmt.Sprintf(format, args...)}
}

// readRequest reads and checks a request. Unknown fields are let through, so that
// a newer rail can talk to an older builder.
func readRequest(w http.ResponseWriter, r *http.Request) (Request, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return Request{}, &badRequest{status: http.StatusUnsupportedMediaType, field: "Content-Type", text: "must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return Request{}, &badRequest{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("request is larger than %d bytes", maxRequestBytes)}
	}
	if err != nil {
		return Request{}, refused("", "request body was cut off")
	}
	req, err := parseRequest(body)
	if err != nil {
		return Request{}, err
	}
	if key := r.Header.Get("Idempotency-Key"); key != req.Run.String() {
		return Request{}, refused("Idempotency-Key", "must be the run_id %s", req.Run)
	}
	return req, nil
}

func parseRequest(body []byte) (Request, error) {
	fields, err := objectFields(body)
	if err != nil {
		return Request{}, err
	}
	var req Request
	return req, errors.Join(
		readUUID(fields, "firm_id", true, &req.Key.Firm),
		readUUID(fields, "matter_id", true, &req.Key.Matter),
		readUUID(fields, "run_id", true, &req.Run),
		readUUID(fields, "retry_of", false, &req.RetryOf),
		readCount(fields, "generation", &req.Generation),
		readCount(fields, "attempt", &req.Attempt),
		readTime(fields, "deadline", &req.Deadline),
	)
}

// objectFields reads exactly one JSON object. Names are compared as they are
// written, and a repeated name is refused: encoding/json would take "Matter_ID"
// for "matter_id" and let the last one win.
func objectFields(body []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, refused("", "request must be one JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, refused("", "request is not valid JSON at byte %d", d.InputOffset())
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, refused("", "request is not valid JSON at byte %d", d.InputOffset())
		}
		if _, again := fields[name]; again {
			return nil, refused(fmt.Sprintf("%.60q", name), "given twice")
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, refused("", "request is not valid JSON at byte %d", d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refused("", "something follows the JSON object")
	}
	return fields, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func readUUID(fields map[string]json.RawMessage, name string, required bool, to *rail.UUID) error {
	raw := fields[name]
	if absent(raw) {
		if required {
			return refused(name, "is missing")
		}
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return refused(name, "must be a string with a UUID")
	}
	u, err := rail.ParseUUID(s)
	if err != nil {
		return refused(name, "%s", err)
	}
	if u.IsZero() {
		return refused(name, "must not be the nil UUID")
	}
	*to = u
	return nil
}

func readCount(fields map[string]json.RawMessage, name string, to *int64) error {
	if absent(fields[name]) {
		return refused(name, "is missing")
	}
	if err := json.Unmarshal(fields[name], to); err != nil || *to < 1 {
		return refused(name, "must be a whole number from 1")
	}
	return nil
}

func readTime(fields map[string]json.RawMessage, name string, to *time.Time) error {
	var s string
	if absent(fields[name]) {
		return refused(name, "is missing")
	}
	if err := json.Unmarshal(fields[name], &s); err != nil {
		return refused(name, "must be a string with an RFC 3339 time")
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return refused(name, "must be an RFC 3339 time like 2026-01-31T12:00:00Z")
	}
	*to = t
	return nil
}
