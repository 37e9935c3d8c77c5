package api

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// The headers in which an answer announces what it was true of.
const (
	EpochHeader    = "Rail-Authority-Epoch"
	RevisionHeader = "Rail-Source-Revision"
)

// problemType begins the type of every problem (RFC 9457).
const problemType = "urn:briefrail:problem:"

// Problem is an answer that is no success. What is not of its type is left out.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	IntentID string `json:"intent_id,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"` // current
	Writer   string `json:"writer,omitempty"`
	Endpoint string `json:"endpoint,omitempty"` // of the writer; absent where it has named none
	LookUp   string `json:"look_up,omitempty"`  // path, at the endpoint
	Receipt  *Said  `json:"receipt,omitempty"`  // what is known of the intent
	Expected *int64 `json:"expected_revision,omitempty"`
	Revision *int64 `json:"revision,omitempty"` // current
	Given    string `json:"given_digest,omitempty"`
	Recorded string `json:"recorded_digest,omitempty"`
	// fields in which an intent differs from the one that has its id
	Differs []string `json:"differs,omitempty"`
	RetryMS int64    `json:"retry_after_ms,omitempty"`
}

// Said is a receipt: what was decided of an intent, by whom, under which epoch.
type Said struct {
	IntentID      string          `json:"intent_id"`
	Firm          rail.UUID       `json:"firm_id"`
	Matter        rail.UUID       `json:"matter_id"`
	Outcome       string          `json:"outcome"` // accepted, refused, unknown
	Replayed      bool            `json:"replayed"`
	Epoch         int64           `json:"epoch"`
	Writer        string          `json:"writer"`
	Revision      int64           `json:"revision"` // of the matter, now
	Result        json.RawMessage `json:"result,omitempty"`
	ResultDigest  string          `json:"result_digest,omitempty"`
	PayloadDigest string          `json:"payload_digest"`
	DecidedAt     *time.Time      `json:"decided_at,omitempty"`
}

func said(id rail.UUID, a authority.Answer) *Said {
	return &Said{
		IntentID: id.String(), Firm: a.Firm, Matter: a.Matter, Outcome: a.Verdict, Replayed: a.Replayed, Epoch: a.Epoch, Writer: a.Writer, Revision: a.Revision,
		Result: a.Result, ResultDigest: hex.EncodeToString(a.ResultDigest), PayloadDigest: hex.EncodeToString(a.PayloadDigest), DecidedAt: a.DecidedAt,
	}
}

// answer is what a request gets, and what is told of it to metrics and logs.
type answer struct {
	name     string // of the closed set
	status   int
	body     any // a *Problem, or what was asked for; nil: none
	key      rail.Key
	intent   rail.UUID
	epoch    int64
	revision *int64
	retry    time.Duration // 0: nothing is said of another time
	tag      string        // ETag; empty: not to be kept
	allow    string
	err      error // for the log only
}

// problem is the answer of one type.
func problem(name, kind string, status int, title, detail string) answer {
	return answer{name: name, status: status, body: &Problem{Type: problemType + kind, Title: title, Status: status, Detail: detail}}
}

// again adds when it is worth coming back.
func (a answer) again(after time.Duration) answer {
	a.retry = max(after, 10*time.Millisecond)
	return a
}

// about fills in the intent.
func (a answer) about(key rail.Key, id rail.UUID) answer {
	a.key, a.intent = key, id
	return a
}

// answering lets callers in, and tells the answer to whoever asked, to the metrics and
// to the log: nothing of a body, of a token or of a path that has no meaning here.
func (s *Server) answering(serve func(*http.Request, caller) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		a := s.admit(r, serve)
		a.write(w, r)
		s.metrics.requests.WithLabelValues(a.name).Inc()
		s.metrics.took.Observe(time.Since(begun).Seconds())
		s.tell(r, a, time.Since(begun))
	}
}

func (s *Server) admit(r *http.Request, serve func(*http.Request, caller) answer) answer {
	c, ok, err := s.tokens.who(r)
	switch {
	case err != nil:
		a := problem(unavailable, "unavailable", http.StatusServiceUnavailable, "Nobody can be let in", "The file of tokens cannot be read.").again(time.Second)
		a.err = err
		return a
	case !ok:
		return problem(unauthenticated, "unauthenticated", http.StatusUnauthorized, "The token is missing or not known", "Send one header Authorization: Bearer TOKEN.")
	}
	return serve(r, c)
}

// only answers a method that a path does not have.
func only(methods string) func(*http.Request, caller) answer {
	return func(*http.Request, caller) answer {
		a := problem(notAllowed, "method-not-allowed", http.StatusMethodNotAllowed, "This path is not asked in that way", "Use "+methods+".")
		a.allow = methods
		return a
	}
}

func nowhere(*http.Request, caller) answer {
	return problem(notFound, "not-found", http.StatusNotFound, "There is nothing at this path", "docs/INTENTS.md lists the paths.")
}

func (a answer) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if a.tag != "" {
		h.Set("ETag", a.tag)
		h.Set("Cache-Control", "private, no-cache")
	}
	if a.epoch > 0 {
		h.Set(EpochHeader, strconv.FormatInt(a.epoch, 10))
	}
	if a.revision != nil {
		h.Set(RevisionHeader, strconv.FormatInt(*a.revision, 10))
	}
	if a.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retry.Seconds()))))
	}
	if a.allow != "" {
		h.Set("Allow", a.allow)
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="rail"`)
	}
	a.writeBody(w, r)
}

func (a answer) writeBody(w http.ResponseWriter, r *http.Request) {
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	kind := "application/json"
	if p, ok := a.body.(*Problem); ok {
		kind = "application/problem+json"
		p.RetryMS = int64(math.Ceil(float64(a.retry) / float64(time.Millisecond)))
		if !a.intent.IsZero() {
			p.IntentID = a.intent.String()
		}
	}
	data, err := json.Marshal(a.body)
	if err != nil { // unreachable: every part is a plain value, or JSON of the database
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(data, '\n')) // who has gone asks for the receipt
	}
}

// tell logs one line. Reads are for those who look for something.
func (s *Server) tell(r *http.Request, a answer, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case a.err != nil:
		level = slog.LevelWarn
	case r.Method != http.MethodPost:
		level = slog.LevelDebug
	}
	line := []slog.Attr{slog.String("outcome", a.name), slog.Int("status", a.status), slog.Duration("took", took)}
	if a.key != (rail.Key{}) {
		line = append(line, slog.String("firm_id", a.key.Firm.String()), slog.String("matter_id", a.key.Matter.String()))
	}
	if !a.intent.IsZero() {
		line = append(line, slog.String("intent_id", a.intent.String()))
	}
	if a.epoch > 0 {
		line = append(line, slog.Int64("authority_epoch", a.epoch))
	}
	if a.revision != nil {
		line = append(line, slog.Int64("revision", *a.revision))
	}
	if a.err != nil {
		line = append(line, slog.String("err", pg.Text(a.err, 300)), slog.String("sqlstate", pg.SQLState(a.err)))
	}
	s.log.LogAttrs(r.Context(), level, "intents", line...)
}

// keyOf reads the matter of the path, and whether the caller may ask about it.
func keyOf(r *http.Request, c caller) (key rail.Key, bad *answer) {
	var err error
	if key, err = rail.ParseKey(r.PathValue("firm") + "/" + r.PathValue("matter")); err != nil || key.Firm.IsZero() || key.Matter.IsZero() {
		a := problem(malformed, "malformed", http.StatusBadRequest, "The path names no matter", "Firm and matter are UUIDs of the form 01234567-89ab-cdef-0123-456789abcdef.")
		return key, &a
	}
	if !c.may(key.Firm) {
		a := problem(forbidden, "forbidden", http.StatusForbidden, "The token is another firm's", fmt.Sprintf("It does not speak for firm %s.", key.Firm))
		a.key = key
		return key, &a
	}
	return key, nil
}
