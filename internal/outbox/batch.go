package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Pending is a fact to be sent, read under a lease. SentTo names the sinks that have
// taken it at an earlier attempt, WaitsFor the paused one that it was noted for,
// Attempts is how many failed, and Again that it was read because its backoff is over
// or its sink may be called.
type Pending struct {
	Fact
	TraceState string
	Bucket     int16
	Epoch      int64
	Attempts   int
	SentTo     []string
	WaitsFor   string
	Again      bool
}

// Look is where a relay reads: its leases in the order in which they are served,
// each with the number (seq) behind which it has not read yet, and the numbers of
// the facts that it has in hand already. After is a hint of this process alone: with
// all zeros everything unpublished is read, which is the truth. Facts that wait for a
// paused sink are read when it is among Sinks.
type Look struct {
	Leases []Lease
	After  []int64 // one a lease
	Hand   []int64
	Limit  int // facts at most
	Sinks  []string
}

// Facts that failed wait in the side table until they are due, and are read from
// there: neither a parked fact nor one that waits is passed again and again, and
// none holds up its neighbours. The lease is looked at as well, so that a relay that
// slept does not even read. Buckets that somebody waits for come first: as many as fill
// half a batch, and one always.
const batchSQL = `
WITH owned AS (
  SELECT h.*, h.bucket = ANY ((SELECT ops.buckets_urgent())::smallint[]) AS urgent
    FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS h (bucket, epoch, after, place)
    JOIN ops.outbox_bucket_leases l ON l.bucket = h.bucket AND l.epoch = h.epoch AND l.holder = $1
), held AS MATERIALIZED (
  SELECT bucket, epoch, after
    FROM (SELECT *, urgent AND row_number() OVER (PARTITION BY urgent ORDER BY place) <= greatest(1, $7::integer / (2 * $6::integer)) AS first FROM owned) o
   ORDER BY first DESC, place
), due AS (
  SELECT h.bucket, h.epoch, f.event_id, f.attempts, f.sent_to, f.waits_for
    FROM held h CROSS JOIN unnest(ARRAY[''] || $8::text[]) AS s (sink) CROSS JOIN LATERAL (
      SELECT * FROM ops.outbox_failures f
       WHERE f.bucket = h.bucket AND f.waits_for = s.sink AND f.parked_at IS NULL AND f.next_attempt_at <= clock_timestamp()
       ORDER BY f.next_attempt_at LIMIT $7) f
   LIMIT $7
), fresh AS (
  SELECT h.bucket, h.epoch, o.*
    FROM held h CROSS JOIN LATERAL (
      SELECT o.seq, o.event_id, o.firm_id, o.matter_id, o.event_name, o.recorded_at, o.traceparent, o.tracestate
        FROM ops.domain_event_outbox o
       WHERE o.bucket = h.bucket AND o.published_at IS NULL AND o.seq > h.after AND o.seq <> ALL ($5::bigint[])
         -- a look-up by key for each row: as a join it was planned, for a table that
         -- statistics call empty, as a reading of all that lies dead in it
         AND (SELECT f.attempts FROM ops.outbox_failures f WHERE f.event_id = o.event_id) IS NULL
       ORDER BY o.seq LIMIT $6) o
   LIMIT $7
)
SELECT o.seq, o.event_id, o.firm_id, o.matter_id, o.event_name, o.recorded_at, coalesce(o.traceparent, ''), coalesce(o.tracestate, ''),
       d.bucket, d.epoch, d.attempts, d.sent_to, d.waits_for, true
  FROM due d JOIN ops.domain_event_outbox o ON o.event_id = d.event_id
 WHERE o.published_at IS NULL AND o.seq <> ALL ($5::bigint[])
UNION ALL
SELECT seq, event_id, firm_id, matter_id, event_name, recorded_at, coalesce(traceparent, ''), coalesce(tracestate, ''),
       bucket, epoch, 0, '{}', '', false FROM fresh`

// leastShare is how many facts one bucket may bring at least: with few buckets in
// use a batch would otherwise stay small.
const leastShare = 64

// Batch reads facts to be sent: those whose backoff is over, and those never sent,
// each bucket's in order of seq. More reports that there may be further ones. More
// buckets than fit wait for the next batch, so the caller turns the order of its
// leases.
func Batch(ctx context.Context, db pg.DB, h Holder, l Look) (facts []Pending, more bool, err error) {
	if len(l.Leases) == 0 || l.Limit <= 0 {
		return nil, false, nil
	}
	buckets, epochs := make([]int16, len(l.Leases)), make([]int64, len(l.Leases))
	for i, b := range l.Leases {
		buckets[i], epochs[i] = b.Bucket, b.Epoch
	}
	hand := l.Hand
	if hand == nil {
		hand = []int64{}
	}
	sinks := l.Sinks
	if sinks == nil {
		sinks = []string{}
	}
	rows, err := db.Query(ctx, batchSQL, h.ID, buckets, epochs, l.After, hand, l.share(), l.Limit, sinks)
	if err != nil {
		return nil, false, fmt.Errorf("outbox.Batch: %w", err)
	}
	facts, err = pgx.CollectRows(rows, scanPending)
	if err != nil {
		return nil, false, fmt.Errorf("outbox.Batch: %w", err)
	}
	return facts, l.cut(facts), nil
}

// share is how many facts one bucket may bring.
func (l Look) share() int { return min(l.Limit, max(leastShare, 2*l.Limit/len(l.Leases))) }

// cut reports whether a limit ended the reading, not the facts.
func (l Look) cut(facts []Pending) bool {
	if len(facts) >= l.Limit {
		return true
	}
	n := map[int16]int{}
	for _, f := range facts {
		if n[f.Bucket]++; n[f.Bucket] >= l.share() {
			return true
		}
	}
	return false
}

func scanPending(r pgx.CollectableRow) (p Pending, err error) {
	err = r.Scan(&p.Seq, &p.Event, &p.Firm, &p.Matter, &p.Name, &p.RecordedAt, &p.TraceParent, &p.TraceState,
		&p.Bucket, &p.Epoch, &p.Attempts, &p.SentTo, &p.WaitsFor, &p.Again)
	return p, err
}

// columns are the parts of facts as arrays, for one statement over all of them.
type columns struct {
	events  []rail.UUID
	buckets []int16
	epochs  []int64
}

func columnsOf(facts []Pending) (c columns) {
	for _, f := range facts {
		c.events = append(c.events, f.Event)
		c.buckets = append(c.buckets, f.Bucket)
		c.epochs = append(c.epochs, f.Epoch)
	}
	return c
}
