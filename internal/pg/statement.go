package pg

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Statement is SQL with named arguments that is taken apart once, at its first
// use. pgx reads the whole text anew at every call, which for statements as long
// as a claim or a landing is the dearest thing that a worker does itself. It may be
// used by several goroutines.
type Statement struct {
	sql   string
	once  sync.Once
	text  string // with $1, $2, ...
	names []string
}

// NewStatement makes a Statement of sql with arguments like @name.
func NewStatement(sql string) *Statement { return &Statement{sql: sql} }

// SQL is the text as it was given.
func (s *Statement) SQL() string { return s.sql }

// With binds arguments; pass it to Query, QueryRow or Exec behind SQL. A name that
// the statement does not use is ignored, one that is missing is NULL.
func (s *Statement) With(args pgx.NamedArgs) Bound { return Bound{s, args} }

var argument = regexp.MustCompile(`@([A-Za-z_][A-Za-z0-9_]*)`)

// takeApart lets pgx do it, with each argument's name as its value: so they come
// back in order.
func (s *Statement) takeApart(ctx context.Context) {
	names := pgx.NamedArgs{}
	for _, m := range argument.FindAllStringSubmatch(s.sql, -1) {
		names[m[1]] = m[1]
	}
	// the error is of strict arguments only, which these are not
	text, args, _ := names.RewriteQuery(ctx, nil, s.sql, nil)
	s.text = text
	for _, a := range args {
		s.names = append(s.names, fmt.Sprint(a))
	}
}

// Bound is a Statement with its arguments.
type Bound struct {
	statement *Statement
	Args      pgx.NamedArgs
}

// RewriteQuery implements pgx.QueryRewriter.
func (b Bound) RewriteQuery(ctx context.Context, _ *pgx.Conn, _ string, _ []any) (string, []any, error) {
	s := b.statement
	s.once.Do(func() { s.takeApart(ctx) })
	args := make([]any, len(s.names))
	for i, name := range s.names {
		args[i] = b.Args[name]
	}
	return s.text, args, nil
}
