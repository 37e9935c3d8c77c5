package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/pg"
)

func state(code string) error { return fmt.Errorf("op: %w", &pgconn.PgError{Code: code, Message: "m"}) }

func TestErrorsAreSorted(t *testing.T) {
	t.Parallel()
	type row struct {
		class              string
		transient, unknown bool
	}
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	for _, c := range []struct {
		err  error
		want row
	}{
		{nil, row{}},
		{state("40001"), row{"40", true, false}},
		{state("40P01"), row{"40", true, false}},
		{state("40003"), row{"40", true, true}},
		{state("53300"), row{"53", true, false}},
		{state("55P03"), row{"55", true, false}},
		{state("55000"), row{"55", false, false}},
		{state("57014"), row{"57", true, false}},
		{state("57P01"), row{"57", true, true}},
		{state("08006"), row{"08", true, true}},
		{state("25006"), row{"25", true, false}},
		{state("25P02"), row{"25", false, false}},
		{state("23505"), row{"23", false, false}},
		{state("42601"), row{"42", false, false}},
		{state("XX000"), row{"XX", false, false}},
		{state("P0001"), row{"other", false, false}},
		{state(""), row{"client", false, false}},
		{state("4"), row{"client", false, false}},
		{reset, row{"client", true, true}},
		{io.ErrUnexpectedEOF, row{"client", true, true}},
		{context.DeadlineExceeded, row{"client", true, true}},
		{context.Canceled, row{"client", false, true}},
		{pgconn.ErrConnClosed, row{"client", true, true}},
		{pgx.ErrNoRows, row{"client", false, false}},
		{pgx.ErrTxCommitRollback, row{"client", false, false}},
		{errors.New("cannot encode"), row{"client", false, false}},
	} {
		if got := (row{pg.Class(c.err), pg.IsTransient(c.err), pg.IsUnknownOutcome(c.err)}); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.err, got, c.want)
		}
	}
}

func TestRefusedConnectionWasNeverAnOutcome(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	pool := open(t, pg.Options{DSN: "postgres://u:hunter2@" + addr + "/db?sslmode=disable"})
	_, err = pool.Exec(t.Context(), "insert into t values (1)")
	if !pg.IsTransient(err) || pg.IsUnknownOutcome(err) || strings.Contains(pg.Text(err, 1000), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		limit int
		want  string
	}{
		{nil, 10, ""},
		{errors.New("short"), 10, "short"},
		{errors.New("a\xffb\x00c\nd"), 20, "a\ufffdb c d"},
		{errors.New("ééé"), 3, "é"},
		{errors.New("é"), 0, ""},
		{errors.New("x"), -1, ""},
		{errors.New("dial postgres://u:pw@h/db failed"), 99, "dial postgres://[removed] failed"},
		{errors.New("host=h password='a b' user=u"), 99, "host=h password=[removed] user=u"},
		{
			fmt.Errorf("insert: %w", &pgconn.PgError{Severity: "ERROR", Code: "23505", Message: `duplicate key value violates unique constraint "u"`, Detail: "Key (name)=(secret)"}), 200,
			`insert: ERROR: duplicate key value violates unique constraint "u" (SQLSTATE 23505)`,
		},
	} {
		if got := pg.Text(c.err, c.limit); got != c.want {
			t.Errorf("Text(%v, %d) = %q, want %q", c.err, c.limit, got, c.want)
		}
	}
}

// The driver tells a server that refuses with TLS and without as two like lines.
func TestTextSaysARefusalOnce(t *testing.T) {
	t.Parallel()
	err := errors.New("failed to connect:\n\t127.0.0.1:1: connection refused\n\t127.0.0.1:1: connection refused\n\t[::1]:1: no route")
	if got, want := pg.Text(err, 200), "failed to connect: 127.0.0.1:1: connection refused [::1]:1: no route"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
