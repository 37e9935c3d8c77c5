package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

// queue is a Source in memory: one batch a poll, and a record of what was done
// with each message.
type queue struct {
	mu       sync.Mutex
	batches  [][]nudge.Message
	deleted  []string
	released []string
	handled  chan struct{} // one for each batch that was settled
	refuse   error         // of Delete
}

func newQueue(batches ...[]nudge.Message) *queue {
	return &queue{batches: batches, handled: make(chan struct{}, 100)}
}

func (q *queue) Receive(ctx context.Context, _ int, wait time.Duration) ([]nudge.Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		q.handled <- struct{}{}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(min(wait, 20*time.Millisecond)):
		}
		q.mu.Lock()
		return nil, nil
	}
	next := q.batches[0]
	q.batches = q.batches[1:]
	return next, nil
}

func (q *queue) Delete(_ context.Context, ms []nudge.Message) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse != nil {
		return len(ms), q.refuse
	}
	for _, m := range ms {
		q.deleted = append(q.deleted, m.ID)
	}
	return 0, nil
}

func (q *queue) Release(_ context.Context, ms []nudge.Message) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range ms {
		q.released = append(q.released, m.ID)
	}
	return 0, nil
}

// consume runs a Consumer until the queue was found empty, and returns its metrics.
func consume(t *testing.T, db *pgtest.DB, q *queue, change ...func(*trigger.Options)) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	tr := trigger.New(db.Pool, reg, options(t, change...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tr.NewConsumer(q, 1, time.Second).Run(ctx) }()
	<-q.handled
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return nudges(t, reg)
}

// nudges reads rail_nudges_total and checks that the outcomes add up.
func nudges(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out, sum, received := map[string]float64{}, 0.0, 0.0
	for _, f := range families {
		for _, m := range f.Metric {
			switch f.GetName() {
			case "rail_nudges_total":
				out[label(m)] = m.Counter.GetValue()
				sum += m.Counter.GetValue()
			case "rail_nudges_received_total":
				received = m.Counter.GetValue()
			}
		}
	}
	if sum != received {
		t.Errorf("outcomes sum to %v, received %v", sum, received)
	}
	return out
}

func label(m *dto.Metric) string { return m.Label[0].GetValue() }

func message(id string, body []byte) nudge.Message {
	return nudge.Message{ID: id, Handle: "h-" + id, Body: body, ReceiveCount: 1}
}

func nudgeOf(event rail.UUID, k rail.Key) nudge.Nudge {
	return nudge.Nudge{Event: event, Firm: k.Firm, Matter: k.Matter, Name: "document.uploaded"}
}

// Forged, doubled, contradicted and broken nudges in one poll: each has its
// outcome, the good ones proceed, and nothing that is evidence is deleted.
// field reports 13 and 14.
func TestEachNudgeHasItsOutcome(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	event := fact(t, db, k, "document.uploaded")
	viewed := fact(t, db, k, "document.viewed")
	old := fact(t, db, newKey(), "document.uploaded")
	other := nudgeOf(event, newKey())
	forged := nudgeOf(rail.NewUUID(), k)
	seen := nudgeOf(viewed, k)
	seen.Name = "document.viewed"
	oldKey := rail.Key{}
	if err := db.Pool.QueryRow(t.Context(), `SELECT firm_id, matter_id FROM ops.domain_event_outbox WHERE event_id = $1`, old).Scan(&oldKey.Firm, &oldKey.Matter); err != nil {
		t.Fatal(err)
	}
	q := newQueue([]nudge.Message{
		message("mismatch", other.Encode()), message("good", nudgeOf(event, k).Encode()), message("copy", nudgeOf(event, k).Encode()),
		message("forged", forged.Encode()), message("ignored", seen.Encode()), message("junk", []byte("hello")), message("null", []byte("null")),
		message("old", nudgeOf(old, oldKey).Encode()),
	}, []nudge.Message{message("late copy", nudgeOf(old, oldKey).Encode())})
	got := consume(t, db, q)
	want := map[string]float64{"mismatch": 1, "demanded": 2, "duplicate": 2, "unknown": 1, "ignored": 1, "malformed": 2, "gated": 0, "error": 0}
	for o, n := range want {
		if got[o] != n {
			t.Errorf("%s: %v, want %v", o, got[o], n)
		}
	}
	slices.Sort(q.deleted)
	slices.Sort(q.released)
	if fmt.Sprint(q.deleted) != "[copy good ignored late copy old]" || fmt.Sprint(q.released) != "[junk null]" {
		t.Errorf("deleted %v, released %v", q.deleted, q.released)
	}
	if n := value[int](t, db.Pool, `SELECT sum(demands_owed) FROM ops.matter_frame_jobs`); n != 2 {
		t.Errorf("%d demands of two facts", n)
	}
}

// field report 13: retention takes a fact before its receipt, so a copy that comes later
// is known by the receipt alone.
func TestACopyOutlivesItsFact(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	event := fact(t, db, k, "document.uploaded")
	body := nudgeOf(event, k).Encode()
	consume(t, db, newQueue([]nudge.Message{message("first", body)}))
	if n, err := outbox.Prune(t.Context(), db.Pool, 0, 10); n != 1 || err != nil {
		t.Fatalf("retention took %d facts, %v", n, err)
	}
	q := newQueue([]nudge.Message{message("copy", body)})
	if got := consume(t, db, q); got["duplicate"] != 1 || fmt.Sprint(q.deleted) != "[copy]" {
		t.Errorf("%v, deleted %v", got, q.deleted)
	}
	if n := value[int](t, db.Pool, `SELECT sum(demands_owed) FROM ops.matter_frame_jobs`); n != 1 {
		t.Errorf("%d demands of one fact", n)
	}
}

// field report 14: of ten messages one is none of ours. The nine others proceed,
// whatever known envelope they came in; the bad one goes back for the queue's redrive,
// its reason is said once, and seeing it again stops nobody.
func TestNineNudgesOfTenProceed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	said := &logged{}
	for bad, reason := range map[string]nudge.Reason{
		"hello": nudge.NotJSON, "": nudge.Empty, "null": nudge.NotObject, "[]": nudge.NotObject, `"{\"v\":1}"`: nudge.NotObject,
		`{"detail-type":"document.uploaded","source":"brief.ops"}`:               nudge.MissingDetail,
		`{"detail-type":"Matter.Created","source":"brief.ops","detail":{"v":1}}`: nudge.BadName,
	} {
		ten, at := make([]nudge.Message, 10), rand.N(10)
		for i := range ten {
			body := []byte(bad)
			if i != at {
				k := newKey()
				body = wrapped(i, nudgeOf(fact(t, db, k, "document.uploaded"), k).Encode())
			}
			ten[i] = message(fmt.Sprint(i), body)
		}
		again := ten[at]
		again.ReceiveCount = 2
		q := newQueue(ten, []nudge.Message{again})
		got := consume(t, db, q, func(o *trigger.Options) { o.Log = slog.New(slog.NewTextHandler(said, nil)) })
		if got["demanded"] != 9 || got["malformed"] != 2 || len(q.deleted) != 9 || !slices.Equal(q.released, []string{again.ID, again.ID}) {
			t.Errorf("%q: %v, deleted %v, released %v", bad, got, q.deleted, q.released)
		}
		if text := said.take(); strings.Count(text, "malformed nudge") != 1 || !strings.Contains(text, "reason="+string(reason)+" ") {
			t.Errorf("%q: no one word of %s in:\n%s", bad, reason, text)
		}
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.outbox_undecided`); n != 0 {
		t.Errorf("%d facts are undecided", n)
	}
}

// wrapped puts a nudge into one of the envelopes that are known.
func wrapped(i int, body []byte) []byte {
	if i%2 == 1 {
		body = fmt.Appendf(nil, `{"version":"0","detail-type":"document.uploaded","source":"brief.ops","detail":%s}`, body)
	}
	if i%4 > 1 {
		body = fmt.Appendf(nil, `{"Type":"Notification","Message":%q}`, body)
	}
	return body
}

// logged keeps what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// A fact that only contradicted nudges name stays undecided for the sweep.
func TestAMismatchDecidesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	event := fact(t, db, newKey(), "document.uploaded")
	if got := consume(t, db, newQueue([]nudge.Message{message("m", nudgeOf(event, newKey()).Encode())})); got["mismatch"] != 1 {
		t.Fatal(got)
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.outbox_undecided`); n != 1 {
		t.Error("the fact was decided")
	}
	once(t, newTrigger(t, db), 1)
}

// field report 15: a deletion with an expired handle is a counted no-op.
func TestAFailedDeleteIsNoFailure(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	event := fact(t, db, k, "document.uploaded")
	q := newQueue([]nudge.Message{message("a", nudgeOf(event, k).Encode())}, []nudge.Message{message("a", nudgeOf(event, k).Encode())})
	q.refuse = errors.New("receipt handle invalid")
	got := consume(t, db, q)
	if got["demanded"] != 1 {
		t.Error(got)
	}
	if n := value[int](t, db.Pool, `SELECT sum(demands_owed) FROM ops.matter_frame_jobs`); n != 1 {
		t.Errorf("%d demands", n)
	}
}

// One nudge whose decision the database refuses is handed back; its neighbours of
// the same poll are decided and deleted.
func TestOneRefusedNudgeGoesBackAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	bad, good := newKey(), newKey()
	exec(t, db, `CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	  IF NEW.matter_id = '`+bad.Matter.String()+`' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END IF; RETURN NEW; END $$`)
	exec(t, db, `CREATE TRIGGER refuse_one BEFORE INSERT ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION refuse_one()`)
	a, b := fact(t, db, bad, "document.uploaded"), fact(t, db, good, "document.uploaded")
	q := newQueue([]nudge.Message{message("bad", nudgeOf(a, bad).Encode()), message("good", nudgeOf(b, good).Encode())})
	got := consume(t, db, q)
	if got["demanded"] != 1 || got["error"] != 1 || fmt.Sprint(q.deleted, q.released) != "[good] [bad]" {
		t.Errorf("%v, deleted %v, released %v", got, q.deleted, q.released)
	}
}
