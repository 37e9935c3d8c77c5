package pg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

func TestStatementIsRewrittenAsPgxWould(t *testing.T) {
	t.Parallel()
	const sql = `SELECT @b::int, '@a', @a, @b -- @c
 WHERE @missing IS NULL`
	args := pgx.NamedArgs{"a": "x", "b": 2, "unused": true}
	wantText, wantArgs, err := args.RewriteQuery(t.Context(), nil, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := pg.NewStatement(sql)
	for range 2 {
		text, got, err := s.With(args).RewriteQuery(t.Context(), nil, s.SQL(), nil)
		if err != nil || text != wantText || !cmp.Equal(got, wantArgs) {
			t.Errorf("got %q %v, %v; want %q %v", text, got, err, wantText, wantArgs)
		}
	}
}
