package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// tap is a database that notes the statement it is asked to run, with its
// arguments, and refuses it: this is how pgbench gets the very text that the rail
// sends.
type tap struct {
	sql  string
	args pgx.NamedArgs
}

var errTapped = errors.New("noted, not run")

func (t *tap) note(sql string, args []any) {
	t.sql = sql
	if len(args) != 1 {
		return
	}
	switch a := args[0].(type) {
	case pgx.NamedArgs:
		t.args = a
	case pg.Bound:
		t.args = a.Args
	}
}

// Exec implements pg.DB.
func (t *tap) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	t.note(sql, args)
	return pgconn.CommandTag{}, errTapped
}

// Query implements pg.DB.
func (t *tap) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	t.note(sql, args)
	return nil, errTapped
}

// QueryRow implements pg.DB.
func (t *tap) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	t.note(sql, args)
	return noRow{}
}

// SendBatch implements pg.DB; nothing that is measured sends one.
func (t *tap) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return nil }

// Begin implements pg.DB.
func (t *tap) Begin(context.Context) (pgx.Tx, error) { return nil, errTapped }

// BeginTx implements pg.Beginner.
func (t *tap) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) { return nil, errTapped }

type noRow struct{}

// Scan implements pgx.Row.
func (noRow) Scan(...any) error { return errTapped }

var namedArg = regexp.MustCompile(`@([a-z_]+)`)

// script turns a noted statement into pgbench's language: arguments become its
// variables, NULL and arrays stand in the text. other holds what stands for an
// argument instead, such as a variable that an earlier statement has set. It ends
// without a semicolon.
func (t *tap) script(other map[string]string, define map[string]string) string {
	return namedArg.ReplaceAllStringFunc(t.sql, func(m string) string {
		name := m[1:]
		if v, ok := other[name]; ok {
			return v
		}
		text, inline := byHand(t.args[name])
		if inline {
			return text
		}
		define[name] = text
		return ":" + name
	})
}

// byHand writes a value as text, as pgbench sends its variables.
func byHand(v any) (text string, inline bool) {
	switch v := v.(type) {
	case nil, *string:
		return "NULL", true
	case rail.UUID:
		if v.IsZero() {
			return "NULL", true
		}
		return v.String(), false
	case time.Duration:
		return fmt.Sprintf("%d us", v.Microseconds()), false
	case []byte:
		if len(v) == 32 {
			return `\x` + hex.EncodeToString(v), false
		}
		return string(v), false
	case []rail.UUID:
		return array(v, rail.UUID.String), true
	case []int32:
		return array(v, func(n int32) string { return strconv.Itoa(int(n)) }), true
	case []int16:
		return array(v, func(n int16) string { return strconv.Itoa(int(n)) }), true
	case []time.Duration:
		return array(v, func(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }), true
	}
	return fmt.Sprint(v), false
}

func array[T any](values []T, text func(T) string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = text(v)
	}
	return "'{" + strings.Join(out, ",") + "}'"
}

// pgbench runs scripts for a while and returns transactions a second; how many they
// were stays in transactionsByHand.
func (b *bench) pgbench(ctx context.Context, db string, clients int, d time.Duration, define map[string]string, scripts ...string) (float64, error) {
	args := []string{
		"-h", "127.0.0.1", "-p", strconv.Itoa(b.cluster.Port), "-U", "postgres", "-n", "-M", "prepared",
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-T", strconv.Itoa(max(1, int(d.Round(time.Second).Seconds()))),
	}
	for name, value := range define {
		args = append(args, "-D", name+"="+value)
	}
	for i, s := range scripts {
		file := filepath.Join(b.dir, fmt.Sprintf("%d.sql", i))
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			return 0, err
		}
		args = append(args, "-f", file)
	}
	cmd := exec.CommandContext(ctx, b.hand, append(args, db)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, strings.TrimSpace(said.String()))
	}
	m := tps.FindSubmatch(out)
	if m == nil || said.Len() > 0 && bytes.Contains(said.Bytes(), []byte("aborted")) {
		return 0, fmt.Errorf("pgbench: %s%s", out, said.Bytes())
	}
	if n := processed.FindSubmatch(out); n != nil {
		b.transactionsByHand, _ = strconv.ParseInt(string(n[1]), 10, 64) // digits by the pattern
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

var processed = regexp.MustCompile(`(?m)^number of transactions actually processed: ([0-9]{1,15})`)

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)
