package pg

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watch is the tracer and gatekeeper of every session. It counts errors, bounds
// the wait for a session, and marks a session whose server has stopped accepting
// writes, so that the pool throws it away instead of handing it out again.
type watch struct {
	readOnlyOK bool
	acquire    time.Duration
	metrics    *Metrics
	pool       atomic.Pointer[pgxpool.Pool] // nil for a session outside any pool
	reset      atomic.Int64                 // when the pool was last emptied, Unix milliseconds
}

var (
	_ pgx.QueryTracer       = (*watch)(nil)
	_ pgx.BatchTracer       = (*watch)(nil)
	_ pgx.CopyFromTracer    = (*watch)(nil)
	_ pgxpool.AcquireTracer = (*watch)(nil)
)

// spoilt is the key under which a session carries the mark.
const spoilt = "briefrail.spoilt"

// Discard marks a session so that the pool closes it rather than hand it out
// again. It is for a caller that knows something the driver cannot see.
func Discard(c *pgx.Conn) { c.PgConn().CustomData()[spoilt] = true }

// validate refuses a new session that cannot write; pgx then tries the DSN's next
// host.
func (w *watch) validate(ctx context.Context, c *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c)
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		w.metrics.readOnly()
	}
	return err
}

// prepare decides, without a round trip, whether a pooled session may be handed
// out. PostgreSQL 14 and later report both parameters by themselves whenever they
// change, and a session idle for a second has just been pinged, which reads the
// report.
func (w *watch) prepare(_ context.Context, c *pgx.Conn) (bool, error) {
	if c.PgConn().CustomData()[spoilt] != nil {
		return false, nil
	}
	if w.readOnlyOK || !reportsReadOnly(c.PgConn()) {
		return true, nil
	}
	w.metrics.readOnly()
	w.empty()
	return false, nil
}

func reportsReadOnly(c *pgconn.PgConn) bool {
	return c.ParameterStatus("in_hot_standby") == "on" ||
		c.ParameterStatus("default_transaction_read_only") == "on"
}

// ended looks at the outcome of anything that was sent.
func (w *watch) ended(c *pgx.Conn, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	w.metrics.failed(err)
	switch state := SQLState(err); {
	case state == readOnlyTransaction && !w.readOnlyOK:
		w.metrics.readOnly()
		Discard(c)
		w.empty()
	case state == "57P01", state == "57P02", len(state) == 5 && state[:2] == "08":
		Discard(c)
		w.empty()
	case state == "" && c.IsClosed() && !errors.Is(err, context.DeadlineExceeded):
		w.empty()
	}
}

// empty throws all sessions away, idle ones now and others at their release, when
// one was cut by the other side or takes no writes any more: the server, or what
// stands before it, has gone or given its office to another. The others would each
// cost somebody a failed statement before they are found out, and one that comes
// back beneath those of the new server might lie there for its whole life. Once a
// second will do: what is opened later has been looked at, and what lies idle goes.
func (w *watch) empty() {
	now, last := time.Now().UnixMilli(), w.reset.Load()
	if pool := w.pool.Load(); pool != nil && now-last > 1000 && w.reset.CompareAndSwap(last, now) {
		pool.Reset()
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (w *watch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *watch) TraceQueryEnd(_ context.Context, c *pgx.Conn, d pgx.TraceQueryEndData) {
	w.ended(c, d.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (w *watch) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer; TraceBatchEnd sees the same error.
func (w *watch) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (w *watch) TraceBatchEnd(_ context.Context, c *pgx.Conn, d pgx.TraceBatchEndData) {
	w.ended(c, d.Err)
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (w *watch) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return ctx
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (w *watch) TraceCopyFromEnd(_ context.Context, c *pgx.Conn, d pgx.TraceCopyFromEndData) {
	w.ended(c, d.Err)
}

// cancelKey finds the end of an acquire's deadline in its context.
type cancelKey struct{}

// TraceAcquireStart implements pgxpool.AcquireTracer. The context that it returns
// governs this acquire only, which is what bounds the wait.
func (w *watch) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	ctx, cancel := context.WithTimeout(ctx, w.acquire)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (w *watch) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, d pgxpool.TraceAcquireEndData) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
	if d.Err != nil && !errors.Is(d.Err, context.Canceled) {
		w.metrics.failed(d.Err)
	}
}
