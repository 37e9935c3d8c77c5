package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Holder is one relay process. ID is new with every start: with the epoch it is
// what a mark is checked against, also after a rewind of the ledger.
type Holder struct {
	ID   rail.UUID
	Name string // for people, at most 200 characters
}

// Lease is a bucket that a relay owns under an epoch. Leaving means that the relay
// has more than its share and reads no more of it: once nothing of the bucket is in
// hand, the next LeaseBuckets gives it away.
type Lease struct {
	Bucket  int16
	Epoch   int64
	Leaving bool
}

// Share is what LeaseBuckets found. Missing is how many buckets of its even share
// the relay does not have yet. NextExpiry is how long the earliest lease of another
// relay still lasts, negative when it has run out, and zero when there is none.
type Share struct {
	Leases     []Lease
	Relays     int
	Missing    int
	NextExpiry time.Duration
}

// The relay's own row first, so that it counts itself. What it holds is locked in
// bucket order, as marks lock it; what is free is taken only where nobody else is
// taking it, so that no two relays ever wait for each other.
const leaseSQL = `
WITH me AS (
  INSERT INTO ops.outbox_relays AS r (relay, name, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
  ON CONFLICT (relay) DO UPDATE SET expires_at = EXCLUDED.expires_at
  RETURNING relay
), forgotten AS (
  DELETE FROM ops.outbox_relays WHERE relay <> $1 AND expires_at < clock_timestamp() - interval '1 hour'
), live AS (
  SELECT relay FROM ops.outbox_relays WHERE expires_at > clock_timestamp() UNION SELECT relay FROM me
), share AS (
  SELECT count(*) AS relays, 64 / count(*) + (count(*) FILTER (WHERE relay < $1) < 64 % count(*))::int AS quota FROM live
), mine AS MATERIALIZED (
  SELECT bucket FROM ops.outbox_bucket_leases WHERE holder = $1 ORDER BY bucket FOR NO KEY UPDATE
), free AS MATERIALIZED (
  SELECT bucket FROM ops.outbox_bucket_leases
   WHERE holder IS NULL OR (holder <> $1 AND expires_at <= clock_timestamp())
   ORDER BY bucket LIMIT greatest(0, (SELECT quota FROM share) - (SELECT count(*) FROM mine)) FOR NO KEY UPDATE SKIP LOCKED
), placed AS (
  SELECT bucket, row_number() OVER (ORDER BY bucket = ANY ($4::smallint[]) DESC, bucket) <= (SELECT quota FROM share) AS keep FROM mine
), kept AS (
  UPDATE ops.outbox_bucket_leases l SET expires_at = clock_timestamp() + $3::interval
    FROM placed p WHERE l.bucket = p.bucket AND (p.keep OR l.bucket = ANY ($4::smallint[]))
  RETURNING l.bucket, l.epoch, NOT p.keep AS leaving
), released AS (
  UPDATE ops.outbox_bucket_leases l SET holder = NULL, expires_at = NULL
    FROM placed p WHERE l.bucket = p.bucket AND NOT p.keep AND l.bucket <> ALL ($4::smallint[])
), taken AS (
  UPDATE ops.outbox_bucket_leases l SET holder = $1, epoch = l.epoch + 1, expires_at = clock_timestamp() + $3::interval
    FROM free f WHERE l.bucket = f.bucket
  RETURNING l.bucket, l.epoch, false AS leaving
), owned AS (
  SELECT * FROM kept UNION ALL SELECT * FROM taken
)
SELECT s.relays, greatest(0, s.quota - (SELECT count(*) FROM owned WHERE NOT leaving)),
       coalesce((SELECT extract(epoch FROM min(expires_at) - clock_timestamp()) FROM ops.outbox_bucket_leases l
                  WHERE holder <> $1 AND NOT EXISTS (SELECT 1 FROM taken t WHERE t.bucket = l.bucket)), 0)::float8,
       ARRAY(SELECT bucket FROM owned ORDER BY bucket), ARRAY(SELECT epoch FROM owned ORDER BY bucket),
       ARRAY(SELECT leaving FROM owned ORDER BY bucket)
  FROM share s`

// LeaseBuckets says that the relay lives, renews what it holds, takes what is free
// up to its even share of the 64 buckets, and gives away what exceeds it; all for
// the given time by the database's clock. Buckets in busy have facts in hand: they
// are given away last, and never before they are idle.
func LeaseBuckets(ctx context.Context, db pg.DB, h Holder, lease time.Duration, busy []int16) (s Share, err error) {
	if busy == nil {
		busy = []int16{}
	}
	var next float64
	var buckets []int16
	var epochs []int64
	var leaving []bool
	err = db.QueryRow(ctx, leaseSQL, h.ID, h.Name, lease, busy).
		Scan(&s.Relays, &s.Missing, &next, &buckets, &epochs, &leaving)
	if err != nil {
		return Share{}, fmt.Errorf("outbox.LeaseBuckets(%s): %w", h.Name, err)
	}
	s.NextExpiry = time.Duration(next * float64(time.Second))
	for i := range buckets {
		s.Leases = append(s.Leases, Lease{buckets[i], epochs[i], leaving[i]})
	}
	return s, nil
}

const releaseSQL = `
WITH gone AS (DELETE FROM ops.outbox_relays WHERE relay = $1)
UPDATE ops.outbox_bucket_leases SET holder = NULL, expires_at = NULL WHERE holder = $1`

// ReleaseBuckets gives everything back: the relay stops.
func ReleaseBuckets(ctx context.Context, db pg.DB, h Holder) error {
	if _, err := db.Exec(ctx, releaseSQL, h.ID); err != nil {
		return fmt.Errorf("outbox.ReleaseBuckets(%s): %w", h.Name, err)
	}
	return nil
}

// Relayed is a relay that lives, with the number of buckets it owns.
type Relayed struct {
	Name    string
	Buckets int
}

const relaysSQL = `
SELECT r.name, (SELECT count(*) FROM ops.outbox_bucket_leases l WHERE l.holder = r.relay AND l.expires_at > clock_timestamp())
  FROM ops.outbox_relays r WHERE r.expires_at > clock_timestamp() ORDER BY r.name`

// Relays lists the relays that live.
func Relays(ctx context.Context, db pg.DB) ([]Relayed, error) {
	rows, err := db.Query(ctx, relaysSQL)
	if err != nil {
		return nil, fmt.Errorf("outbox.Relays: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Relayed])
	if err != nil {
		return nil, fmt.Errorf("outbox.Relays: %w", err)
	}
	return out, nil
}
