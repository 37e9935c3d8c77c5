package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// noClaim is a claim of nobody, where only a frame's digest is wanted.
func noClaim() jobs.Claim { return jobs.Claim{} }

// writeSQL is a write as one round trip and one transaction: admitted first, then some
// work, then a row.
func writeSQL(side int, scope, matter string, work time.Duration) string {
	return fmt.Sprintf(`SELECT ops.admit('%[1]s', '%[2]s'); SELECT pg_sleep(%[3]f); INSERT INTO public.written_%[2]s (scope, matter_id) VALUES ('%[1]s', '%[4]s')`,
		scope, sides[side], work.Seconds(), matter)
}

// retryAfter is how soon a client that was refused comes back.
const retryAfter = time.Millisecond

// client writes without end, to whoever has authority as far as it knows.
func (m *move) client(ctx context.Context, i int) error {
	side := 0
	for ctx.Err() == nil {
		work := m.work
		if i == 0 && m.slow.Load() && rand.N(8) == 0 {
			work = 250 * time.Millisecond
		}
		m.gate.RLock()
		_, err := m.pool.Exec(ctx, writeSQL(side, moving, m.matter[0], work))
		m.gate.RUnlock()
		switch state := pg.SQLState(err); {
		case err == nil:
			m.wrote(side)
		case ctx.Err() != nil:
		case state == "RF503":
			m.wasRefused()
			if err := pause(ctx, retryAfter); err != nil {
				return err
			}
		case state == "RF409":
			side = 1 - side
			if err := pause(ctx, retryAfter); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a write: %w", err)
		}
	}
	return ctx.Err()
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

// wrote notes the first write that is let in after a refusal, on the other side.
func (m *move) wrote(side int) {
	m.accepted.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if side != m.side && !m.refused.IsZero() && m.allowed.IsZero() {
		m.allowed = time.Now()
		m.pauses = append(m.pauses, m.allowed.Sub(m.refused))
	}
}

// together runs one step in a transaction of its own.
func (m *move) together(ctx context.Context, do func(authority.Controller, pg.DB) error) error {
	conn, err := m.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
		return err
	}
	if err := do(authority.Controller{DB: conn, Actor: m.c.Actor}, conn); err != nil {
		_, rollback := conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
		return errors.Join(err, rollback)
	}
	_, err = conn.Exec(ctx, `COMMIT`)
	return err
}

// closes begins a closing, unless that takes too long.
func (m *move) closes(ctx context.Context, id rail.UUID) error {
	return m.together(ctx, func(c authority.Controller, db pg.DB) error {
		if _, err := db.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, startWithin.Milliseconds())); err != nil {
			return err
		}
		_, err := c.Close(ctx, id)
		return err
	})
}

// seal also counts, under the lock of the seal.
func (m *move) seal(ctx context.Context, id rail.UUID, from int) (ch authority.Change, err error) {
	err = m.together(ctx, func(c authority.Controller, db pg.DB) (err error) {
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
