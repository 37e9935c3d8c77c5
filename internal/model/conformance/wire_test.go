package conformance_test

import (
	"context"
	"io"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/pg"
	"briefrail/internal/runs"
)

// wire is a session of a worker. A fault, where there is one, changes statements on
// their way to the server.
type wire struct {
	*pgx.Conn
	fault   *fault
	changed int  // statements that the fault changed
	halfway bool // what the fault does after a statement is lost with its answer
}

func (w *wire) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = w.change(sql, args)
	return w.Conn.Query(ctx, sql, args...)
}

func (w *wire) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	changed, changedArgs := w.change(sql, args)
	row := w.Conn.QueryRow(ctx, changed, changedArgs...)
	if w.fault == nil || w.fault.then == "" || !strings.Contains(sql, w.fault.in) {
		return row
	}
	return twice{row, func() error {
		if w.halfway {
			return nil
		}
		_, err := w.Exec(ctx, w.fault.then)
		return err
	}}
}

// twice is a row after which the fault does something more.
type twice struct {
	pgx.Row
	then func() error
}

func (r twice) Scan(into ...any) error {
	if err := r.Row.Scan(into...); err != nil {
		return err
	}
	return r.then()
}

// change applies the fault. A statement that is taken apart already carries its
// text in its arguments.
func (w *wire) change(sql string, args []any) (string, []any) {
	if w.fault == nil {
		return sql, args
	}
	changed, ok := w.fault.change(sql)
	if !ok {
		return sql, args
	}
	w.changed++
	if len(args) > 0 {
		if b, ok := args[0].(pg.Bound); ok {
			args = []any{b.Args}
		}
	}
	return changed, args
}

// A landing runs in a goroutine of its own, as runs.LandSettled is one loop, and
// stops before each of its statements until it is told what becomes of it.
type landing struct {
	*wire
	at    chan point
	say   chan order
	over  chan verdict
	where point
	stop  context.CancelCauseFunc
}

// point is where a landing stands.
type point string

const (
	atLanding  point = "before the landing"
	atQuestion point = "before the question what became of it"
	ended      point = "ended"
)

// order says what becomes of a statement; the zero value lets it through.
type order struct {
	deaf  bool  // it is executed, its answer is lost
	err   error // this is the answer, and it never gets there
	crash bool  // the process ends here
}

type verdict struct {
	landed runs.Landed
	err    error
}

// begin starts a landing, up to its first statement.
func (w *wire) begin(ctx context.Context, l runs.Landing) *landing {
	ctx, stop := context.WithCancelCause(ctx)
	out := &landing{wire: w, at: make(chan point), say: make(chan order), over: make(chan verdict, 1), stop: stop}
	go func() {
		defer close(out.over)
		landed, err := runs.LandSettled(ctx, out, l, func(context.Context, int) {})
		out.over <- verdict{landed, err}
	}()
	out.where = <-out.at
	return out
}

// tell lets the landing go on to its next statement or its end.
func (l *landing) tell(o order) verdict {
	l.say <- o
	select {
	case l.where = <-l.at:
		return verdict{}
	case v := <-l.over:
		l.where = ended
		l.stop(nil)
		return v
	}
}

// crash ends the landing where it stands.
func (l *landing) crash() {
	l.say <- order{crash: true}
	<-l.over
	l.stop(nil)
}

// stand waits until it is told what becomes of the next statement.
func (l *landing) stand(where point) order {
	l.at <- where
	o := <-l.say
	if o.crash {
		runtime.Goexit()
	}
	return o
}

func (l *landing) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	where := atLanding
	if strings.HasPrefix(sql, "SELECT outcome FROM") {
		where = atQuestion
	}
	o := l.stand(where)
	// how long the test took to decide must not count
	ctx = context.WithoutCancel(ctx)
	switch {
	case o.err != nil:
		return failed{o.err}
	case o.deaf:
		l.halfway = true
		defer func() { l.halfway = false }()
		return lost(l.wire.QueryRow(ctx, sql, args...))
	}
	return l.wire.QueryRow(ctx, sql, args...)
}

// BeginTx is the first statement of a landing by COPY, and stands for all of them.
func (l *landing) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	o := l.stand(atLanding)
	if o.err != nil {
		return nil, o.err
	}
	tx, err := l.wire.BeginTx(ctx, opts)
	if err == nil && o.deaf {
		tx = deafTx{tx}
	}
	return tx, err
}

// deafTx commits, and its caller does not hear of it.
type deafTx struct{ pgx.Tx }

func (tx deafTx) Commit(ctx context.Context) error {
	if err := tx.Tx.Commit(ctx); err != nil {
		return err
	}
	return errLost
}

// failed is an answer that is an error.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// lost lets a landing happen and loses its answer.
func lost(row pgx.Row) pgx.Row {
	var status, owed any
	if err := row.Scan(&status, &owed); err != nil {
		return failed{err}
	}
	return failed{errLost}
}

// What a client sees when the connection goes, and what a server says that refuses a
// frame, or whose disk is broken, or that has taken the right to write away.
var (
	errLost     = io.ErrUnexpectedEOF
	errRefused  = &pgconn.PgError{Code: "23514", Message: "the frame is refused"}
	errBroken   = &pgconn.PgError{Code: "XX000", Message: "the server is broken"}
	errNotAllow = &pgconn.PgError{Code: "42501", Message: "permission denied"}
)

var _ runs.DB = (*landing)(nil)
