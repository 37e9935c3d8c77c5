package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// noClaim is a claim of nobody, where only a frame's digest is wanted.
func noClaim() jobs.Claim { return jobs.Claim{} }

// writeSQL is a write as one round trip and one transaction: admitted first, then some
// work, then a row. Its first row tells when it was let in.
func writeSQL(side int, scope, matter string, work time.Duration) string {
	return fmt.Sprintf(`SELECT ops.admit('%[1]s', '%[2]s'), extract(epoch FROM clock_timestamp()); SELECT pg_sleep(%[3]f); INSERT INTO public.written_%[2]s (scope, matter_id) VALUES ('%[1]s', '%[4]s')`,
		scope, sides[side], work.Seconds(), matter)
}

// write does one, and tells when it was let in.
func (m *move) write(ctx context.Context, sql string) (in time.Time, err error) {
	conn, err := m.pool.Acquire(ctx)
	if err != nil {
		return in, err
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return in, err
	}
	seconds, err := strconv.ParseFloat(string(results[0].Rows[0][1]), 64)
	return time.UnixMicro(int64(seconds * 1e6)), err
}

// client writes without end, to whoever has authority as far as it knows. Where it is
// refused it comes back when it was told to, or in an instant where it was sent elsewhere.
func (m *move) client(ctx context.Context, i int) error {
	side := 0
	for ctx.Err() == nil {
		work := m.work
		if i == 0 && m.slow.Load() && rand.N(8) == 0 {
			work = 250 * time.Millisecond
		}
		m.gate.RLock()
		in, err := m.write(ctx, writeSQL(side, moving, m.matter[0], work))
		m.gate.RUnlock()
		switch state := pg.SQLState(err); {
		case err == nil:
			m.wrote(side, in)
		case ctx.Err() != nil:
		case state == "RF503":
			m.wasRefused()
			if err := pause(ctx, retryAfter(err)); err != nil {
				return err
			}
		case state == "RF409":
			side = 1 - side
		default:
			return fmt.Errorf("a write: %w", err)
		}
	}
	return ctx.Err()
}

// retryAfter is when a refusal says to come back.
func retryAfter(refused error) time.Duration {
	var e *pgconn.PgError
	var told struct {
		MS int64 `json:"retry_after_ms"`
	}
	if !errors.As(refused, &e) || json.Unmarshal([]byte(e.Detail), &told) != nil {
		return time.Millisecond
	}
	return time.Duration(told.MS) * time.Millisecond
}

// other writes in the bucket that stays.
func (m *move) other(ctx context.Context) error {
	sql := writeSQL(0, staying, m.matter[1], 0)
	for ctx.Err() == nil {
		begun := time.Now()
		_, err := m.pool.Exec(ctx, sql)
		switch {
		case err == nil:
			m.others.add(time.Since(begun))
		case ctx.Err() != nil:
		case pg.SQLState(err) != "":
			m.othersRefused.Add(1)
		default:
			return fmt.Errorf("a write elsewhere: %w", err)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *move) turn() (from, to int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused, m.allowed = time.Time{}, time.Time{}
	return m.side, 1 - m.side
}

func (m *move) wasRefused() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused.IsZero() {
		m.refused = time.Now()
	}
}

// wrote notes the first write that was let in after a refusal, on the other side.
func (m *move) wrote(side int, in time.Time) {
	m.accepted.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if side != m.side && !m.refused.IsZero() && (m.allowed.IsZero() || in.Before(m.allowed)) {
		m.allowed = in
	}
}

// together runs one step in a transaction of its own, on the controller's connection.
func (m *move) together(ctx context.Context, c authority.Controller, do func(authority.Controller, pg.DB) error) error {
	if _, err := c.DB.Exec(ctx, `BEGIN`); err != nil {
		return err
	}
	if err := do(c, c.DB); err != nil {
		_, rollback := c.DB.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
		return errors.Join(err, rollback)
	}
	_, err := c.DB.Exec(ctx, `COMMIT`)
	return err
}

// closes begins a closing, unless that takes too long.
func (m *move) closes(ctx context.Context, c authority.Controller, id rail.UUID) error {
	return m.together(ctx, c, func(c authority.Controller, db pg.DB) error {
		if _, err := db.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, startWithin.Milliseconds())); err != nil {
			return err
		}
		_, err := c.Close(ctx, id)
		return err
	})
}

// seal also counts, under the lock of the seal.
func (m *move) seal(ctx context.Context, c authority.Controller, id rail.UUID, from int) (ch authority.Change, err error) {
	err = m.together(ctx, c, func(c authority.Controller, db pg.DB) (err error) {
		if ch, err = c.Seal(ctx, id); err == nil {
			m.sealed[from], err = m.count(ctx, db, from)
		}
		return err
	})
	return ch, err
}

func (m *move) count(ctx context.Context, db pg.DB, side int) (n int64, err error) {
	err = db.QueryRow(ctx, `SELECT count(*) FROM public.written_`+sides[side]+` WHERE scope = $1`, moving).Scan(&n)
	return n, err
}

// afterwards waits until the other side has been let in, and for whoever was slow, and
// then counts what came late.
func (m *move) afterwards(ctx context.Context, from int) error {
	for m.waiting() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if m.slow.Load() {
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	n, err := m.count(ctx, m.pool, from)
	m.late += n - m.sealed[from]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.allowed.IsZero() {
		m.pauses = append(m.pauses, m.allowed.Sub(m.refused))
	}
	m.side = 1 - from
	return err
}

func (m *move) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.refused.IsZero() && m.allowed.IsZero()
}

func (m *move) told() string {
	if len(m.pauses) == 0 {
		return "none was ever let across"
	}
	return "p50 " + ms(quantile(m.pauses, .5)) + ", p99 " + ms(quantile(m.pauses, .99)) + ", at most " + ms(quantile(m.pauses, 1))
}

// parts tells where the time of a crossing goes, by its own row.
func (m *move) parts(ctx context.Context) (string, error) {
	var p [4]float64
	err := m.pool.QueryRow(ctx, `
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM drained_at - closed_at)), percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM sealed_at - drained_at)),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM verified_at - sealed_at)), percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM advanced_at - verified_at))
  FROM ops.write_fence_changes WHERE outcome = 'advanced'`).Scan(&p[0], &p[1], &p[2], &p[3])
	return fmt.Sprintf("%.1f, %.1f, %.1f, %.1f ms", 1000*p[0], 1000*p[1], 1000*p[2], 1000*p[3]), err
}

// walPerWrite is how many bytes of WAL a write takes while nothing moves.
func (m *move) walPerWrite(ctx context.Context, d time.Duration) (float64, error) {
	const here = `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`
	var from, to float64
	if err := m.pool.QueryRow(ctx, here).Scan(&from); err != nil {
		return 0, err
	}
	before := m.accepted.Load()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	if err := m.pool.QueryRow(ctx, here).Scan(&to); err != nil {
		return 0, err
	}
	return (to - from) / float64(max(1, m.accepted.Load()-before)), nil
}
