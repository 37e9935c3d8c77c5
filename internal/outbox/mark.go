package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ownedCTE locks the leases under which the facts were read, in bucket order and
// until the statement ends: a bucket cannot change hands beside a write of its
// owner, and a relay that lost it writes nothing (field report 9).
const ownedCTE = `
WITH facts AS MATERIALIZED (
  SELECT * FROM unnest(@events::uuid[], @buckets::smallint[], @epochs::bigint[]) AS f (event_id, bucket, epoch)
), owned AS MATERIALIZED (
  SELECT l.bucket, l.epoch FROM ops.outbox_bucket_leases l
   WHERE l.holder = @holder AND l.bucket IN (SELECT bucket FROM facts)
   ORDER BY l.bucket FOR SHARE
), ours AS MATERIALIZED (
  SELECT f.event_id FROM facts f JOIN owned w ON w.bucket = f.bucket AND w.epoch = f.epoch
)`

const markSQL = ownedCTE + `, marked AS (
  UPDATE ops.domain_event_outbox o SET published_at = clock_timestamp()
    FROM ours WHERE o.event_id = ours.event_id AND o.published_at IS NULL
  RETURNING o.event_id, extract(epoch FROM o.published_at - o.recorded_at)::float8 AS age
), forgotten AS (
  DELETE FROM ops.outbox_failures f USING marked m WHERE f.event_id = m.event_id
)
SELECT event_id, age FROM marked`

// Marked is a fact that is published now, with its age at that instant.
type Marked struct {
	Event rail.UUID
	Age   time.Duration
}

// Mark publishes facts that every sink has named as taken. Those read under a lease
// that has since gone to another relay are left alone and not returned: their owner
// sends them again.
func Mark(ctx context.Context, db pg.DB, h Holder, facts []Pending) ([]Marked, error) {
	if len(facts) == 0 {
		return nil, nil
	}
	c := columnsOf(facts)
	rows, err := db.Query(ctx, markSQL, pgx.NamedArgs{"holder": h.ID, "events": c.events, "buckets": c.buckets, "epochs": c.epochs})
	if err != nil {
		return nil, fmt.Errorf("outbox.Mark(%d facts): %w", len(facts), err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (m Marked, err error) {
		var age float64
		err = r.Scan(&m.Event, &age)
		m.Age = time.Duration(age * float64(time.Second))
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox.Mark(%d facts): %w", len(facts), err)
	}
	return out, nil
}

// Refused is a fact that a sink did not take. Park is for what would never be taken;
// anything else is tried again after a backoff. SentTo names the sinks that took it
// all the same. WaitsFor is a sink that was paused and so not asked: then nothing is
// held against the fact, and it is due whenever that sink may be called.
type Refused struct {
	Pending
	Code   string // from a closed set
	Text   string
	SentTo []string
	Park   bool
	// the Pending's own WaitsFor is what was noted before
	WaitsFor string
}

// Backoff bounds the wait before a refused fact is tried again: full jitter below
// First, doubled with every attempt up to Max.
type Backoff struct{ First, Max time.Duration }

// The wait is in the row, so it survives a restart (field report 12).
const failSQL = ownedCTE + `, noted AS (
  SELECT ours.event_id, n.bucket, n.code, n.text, n.park, n.waits_for, (n.waits_for = '')::integer AS failed,
         string_to_array(nullif(n.sent_to, ''), ',') AS sent_to
    FROM unnest(@events::uuid[], @buckets::smallint[], @codes::text[], @texts::text[], @parks::boolean[], @sent::text[], @waits::text[])
         AS n (event_id, bucket, code, text, park, sent_to, waits_for)
    JOIN ours ON ours.event_id = n.event_id
    JOIN ops.domain_event_outbox o ON o.event_id = n.event_id AND o.published_at IS NULL
)
INSERT INTO ops.outbox_failures AS f (event_id, bucket, attempts, sent_to, waits_for, next_attempt_at, last_code, last_text, parked_at, parked_reason)
SELECT event_id, bucket, failed, coalesce(sent_to, '{}'), waits_for, clock_timestamp() + failed * random() * least(@first::interval, @max::interval), code, text,
       CASE WHEN park THEN clock_timestamp() END, CASE WHEN park THEN code || ': ' || text END
  FROM noted
ON CONFLICT (event_id) DO UPDATE SET
  attempts = f.attempts + (EXCLUDED.waits_for = '')::integer, sent_to = EXCLUDED.sent_to, waits_for = EXCLUDED.waits_for, last_code = EXCLUDED.last_code, last_text = EXCLUDED.last_text,
  next_attempt_at = clock_timestamp() + (EXCLUDED.waits_for = '')::integer * random() * least(@first::interval * power(2::float8, least(f.attempts, 30)), @max::interval),
  parked_at = EXCLUDED.parked_at, parked_reason = EXCLUDED.parked_reason
RETURNING parked_at IS NOT NULL`

// Fail notes refusals in the side table: attempts, when to try again, why, parked or
// not. Like Mark it leaves alone what this relay no longer owns. It returns how many
// facts were noted, and how many of them are parked.
func Fail(ctx context.Context, db pg.DB, h Holder, facts []Refused, b Backoff) (noted, parked int, err error) {
	if len(facts) == 0 {
		return 0, 0, nil
	}
	rows, err := db.Query(ctx, failSQL, failArgs(h, facts, b))
	if err != nil {
		return 0, 0, fmt.Errorf("outbox.Fail(%d facts): %w", len(facts), err)
	}
	var isParked bool
	_, err = pgx.ForEachRow(rows, []any{&isParked}, func() error {
		noted++
		if isParked {
			parked++
		}
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("outbox.Fail(%d facts): %w", len(facts), err)
	}
	return noted, parked, nil
}

// The row has room for so much of a sink's words.
const (
	maxCode = 100
	maxText = 400
)

func failArgs(h Holder, facts []Refused, b Backoff) pgx.NamedArgs {
	plain := make([]Pending, len(facts))
	codes, texts := make([]string, len(facts)), make([]string, len(facts))
	sent, waits := make([]string, len(facts)), make([]string, len(facts))
	parks := make([]bool, len(facts))
	for i, f := range facts {
		plain[i], parks[i] = f.Pending, f.Park
		codes[i], texts[i] = pg.Text(errors.New(f.Code), maxCode), pg.Text(errors.New(f.Text), maxText)
		sent[i], waits[i] = strings.Join(f.SentTo, ","), f.WaitsFor
	}
	c := columnsOf(plain)
	return pgx.NamedArgs{
		"holder": h.ID, "events": c.events, "buckets": c.buckets, "epochs": c.epochs,
		"codes": codes, "texts": texts, "parks": parks, "sent": sent, "waits": waits, "first": b.First, "max": b.Max,
	}
}
