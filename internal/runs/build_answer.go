package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

const (
	// envelopeBytes is what an answer may weigh besides its frame.
	envelopeBytes = 64 << 10
	// faultBytes is how much is read of an answer that is no success.
	faultBytes = 4 << 10
	// maxVersion is the longest schema or builder version, in bytes.
	maxVersion = 100
)

// fault reads an answer that is no 200.
func (c *call) fault(res *http.Response) (Frame, Usage, *BuildError) {
	said, _ := readAll(io.LimitReader(res.Body, faultBytes), -1, faultBytes, c.progress)
	c.size = len(said)
	class, kind := classify(res.StatusCode, isHTML(res, said))
	text := fmt.Sprintf("the builder answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	bad := failed(class, kind, text, nil).saying(said, c.secret)
	if class == Transient || class == Unavailable {
		bad.RetryAfter = retryAfter(res.Header, time.Now())
	}
	var usage Usage
	if parts, err := frames.Find(said, "usage"); err == nil {
		usage = parseUsage(parts[0])
	}
	return Frame{}, usage, bad
}

// classify tells what a status other than 200 means.
func classify(status int, html bool) (BuildClass, string) {
	switch {
	case status == http.StatusTooManyRequests:
		return Transient, KindRateLimited
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Transient, KindHTTP4xx
	case status >= 500:
		return Transient, KindHTTP5xx
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Unavailable, KindAuth
	case status == http.StatusNotFound:
		return Unavailable, KindNotFound
	case status >= 300 && status < 400:
		return Unavailable, KindRedirect
	case html:
		return Unavailable, KindHTML
	case status >= 400:
		return Permanent, KindHTTP4xx
	case status == http.StatusNoContent:
		return Transient, KindEmpty
	}
	return Transient, KindBadAnswer
}

// retryAfter reads seconds or a date; a date is measured against the answer's own
// Date, so that two clocks do not matter.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	var d time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			now = sent
		}
		d = at.Sub(now)
	}
	return min(max(d, 0), MaxRetryAfter)
}

// success reads a 200.
func (c *call) success(res *http.Response) (Frame, Usage, *BuildError) {
	limit := c.opts.MaxFrameBytes + envelopeBytes
	var body []byte
	err := errTooLarge
	if res.ContentLength <= limit {
		body, err = readAll(res.Body, res.ContentLength, limit, c.progress)
	}
	c.size = len(body)
	switch {
	case errors.Is(err, errTooLarge):
		return Frame{}, Usage{}, c.refuse(Permanent, KindTooLarge, err.Error(), body)
	case err != nil:
		return Frame{}, Usage{}, c.broken(err).saying(body, c.secret)
	case len(bytes.TrimSpace(body)) == 0:
		return Frame{}, Usage{}, c.refuse(Transient, KindEmpty, "the builder answered 200 without a body", body)
	case isHTML(res, body):
		return Frame{}, Usage{}, c.refuse(Unavailable, KindHTML, "the builder answered 200 with a page for people", body)
	case !isJSON(res):
		return Frame{}, Usage{}, c.refuse(Transient, KindNotJSON, "the builder answered 200 without a JSON content type", body)
	}
	return c.answer(body)
}

func (c *call) refuse(class BuildClass, kind, text string, said []byte) *BuildError {
	return failed(class, kind, text, nil).saying(said, c.secret)
}

// answer takes the body of a 200 apart. Everything is checked before anything of
// it is used.
func (c *call) answer(body []byte) (Frame, Usage, *BuildError) {
	parts, err := frames.Find(body, "firm_id", "matter_id", "generation",
		"schema_version", "builder_version", "frame", "usage", "error")
	if err != nil {
		return Frame{}, Usage{}, c.refuse(Transient, KindNotJSON, "the answer is no JSON object: "+err.Error(), body)
	}
	frame, usage := parts[5], parseUsage(parts[6])
	schema, okSchema := shortText(parts[3])
	builder, okBuilder := shortText(parts[4])
	var bad *BuildError
	switch {
	case !isNull(parts[7]) && isNull(frame):
		bad = c.refuse(Transient, KindErrorBody, "the builder answered 200 with an error inside", body)
	case isNull(parts[0]) || isNull(parts[1]) || isNull(parts[2]):
		bad = c.refuse(Transient, KindBadAnswer, "the answer does not say which matter it is for", body)
	case !c.echoes(parts):
		bad = c.refuse(Mismatch, KindMismatch, "the answer is for another matter or generation", body)
	case isNull(frame):
		bad = c.refuse(Permanent, KindBadAnswer, "the answer has no frame", body)
	case int64(len(frame)) > c.opts.MaxFrameBytes:
		bad = c.refuse(Permanent, KindTooLarge, errTooLarge.Error(), body)
	case !okSchema || !okBuilder:
		bad = c.refuse(Permanent, KindBadAnswer, "schema_version and builder_version must be texts of 1 to 100 bytes", body)
	}
	if bad != nil {
		return Frame{}, usage, bad
	}
	return Frame{JSON: frame, SchemaVersion: schema, BuilderVersion: builder}, usage, nil
}

// echoes reports whether firm, matter and generation are those of the request.
func (c *call) echoes(parts [][]byte) bool {
	var key rail.Key
	firm := json.Unmarshal(parts[0], &key.Firm)
	matter := json.Unmarshal(parts[1], &key.Matter)
	generation, err := strconv.ParseInt(string(parts[2]), 10, 64)
	return errors.Join(firm, matter, err) == nil && key == c.r.Key && generation == c.r.Token.Generation
}

func isNull(part []byte) bool { return part == nil || string(part) == "null" }

// shortText reads a JSON string fit for a version column.
func shortText(part []byte) (string, bool) {
	var s string
	if len(part) > 6*maxVersion+2 || json.Unmarshal(part, &s) != nil {
		return "", false
	}
	return s, s != "" && len(s) <= maxVersion && tidy(s) == s
}

// parseUsage reads what a build cost. What cannot be read is unknown: a paid frame
// is not thrown away over its bill.
func parseUsage(part []byte) Usage {
	var in struct {
		ModelCalls json.Number `json:"model_calls"`
		Tokens     json.Number `json:"tokens"`
		CostUSD    string      `json:"cost_usd"`
	}
	if len(part) > faultBytes || json.Unmarshal(part, &in) != nil {
		return Usage{}
	}
	u := Usage{ModelCalls: count(in.ModelCalls), Tokens: count(in.Tokens)}
	if isMoney(in.CostUSD) {
		u.CostUSD = in.CostUSD
	}
	return u
}

// count reads a number of things; anything else is 0.
func count(n json.Number) int64 {
	v, err := n.Int64()
	if err != nil || v < 0 {
		return 0
	}
	return v
}

// isMoney reports whether s is a plain decimal of at most 9 places on either side.
func isMoney(s string) bool {
	whole, places, dot := strings.Cut(s, ".")
	digits := func(s string) bool {
		return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
	}
	return digits(whole) && (!dot || digits(places))
}

// isHTML reports whether an answer is a page, by its header or its first character.
func isHTML(res *http.Response, body []byte) bool {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), " \t\r\n")
	return media == "text/html" || media == "application/xhtml+xml" || bytes.HasPrefix(body, []byte("<"))
}

func isJSON(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}
