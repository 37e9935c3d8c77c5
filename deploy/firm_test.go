package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// seen is everything that rail_app can read of a relation, as one text, in a
// transaction of the given firm; an empty firm is not set at all.
func seen(ctx context.Context, app *pgxpool.Pool, firm, sql string) (text string, err error) {
	err = pgx.BeginFunc(ctx, app, func(tx pgx.Tx) error {
		if firm != "" {
			if _, err := tx.Exec(ctx, `SELECT set_config('rail.firm_id', $1, true)`, firm); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, sql).Scan(&text)
	})
	return text, err
}

// readable lists, from the catalogue, a statement for every relation of the schema of
// which rail_app may read any column: all those columns of all rows, as one text.
const readableSQL = `
SELECT format('SELECT coalesce(string_agg(ROW(%s)::text, chr(10)), '''') FROM ops.%I', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relname)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = 'ops'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_column_privilege('rail_app', c.oid, a.attnum, 'SELECT')
 GROUP BY c.relname`

// callable lists a call for every function of the schema that rail_app may call, with
// the other firm's ids wherever an id fits.
const callableSQL = `
SELECT format('SELECT coalesce(string_agg(r::text, chr(10)), '''') FROM ops.%I(%s) r', p.proname,
         (SELECT string_agg(CASE WHEN t = 'uuid'::regtype THEN quote_literal($1::text) ELSE 'NULL' END || '::' || format_type(t, NULL), ', ' ORDER BY n)
            FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS u (t, n)))
  FROM pg_proc p
 WHERE p.pronamespace = 'ops'::regnamespace AND p.prorettype <> 'trigger'::regtype AND has_function_privilege('rail_app', p.oid, 'EXECUTE')`

// A firm's session reads nothing of another firm by whatever it may touch, and
// nothing at all without a firm.
func TestOneFirmSeesOneFirm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	app := s.PoolAs(t, "rail_app")
	relations := strs(t, s.Pool, readableSQL)
	functions := strs(t, s.Pool, callableSQL, s.theirs.Matter.String())
	if len(relations) < 4 || len(functions) < 2 {
		t.Fatalf("looks at %d relations and %d functions only", len(relations), len(functions))
	}
	for _, sql := range append(relations, functions...) {
		for who, firm := range map[string]string{"mine": s.mine.Firm.String(), "nobody": "", "unknown": rail.NewUUID().String()} {
			text, err := seen(t.Context(), app, firm, sql)
			if err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			for _, secret := range []string{`theirs`, s.theirs.Firm.String(), s.theirs.Matter.String()} {
				if strings.Contains(text, secret) {
					t.Errorf("%s reads %s of another firm by %s", who, secret, sql)
				}
			}
			if hasMine := strings.Contains(text, s.mine.Matter.String()); hasMine && who != "mine" {
				t.Errorf("%s reads of my firm by %s", who, sql)
			}
		}
	}
	for _, sql := range []string{`SELECT frame::text FROM ops.current_frames`, `SELECT frame::text FROM ops.matter_frames`} {
		if text, err := seen(t.Context(), app, s.mine.Firm.String(), sql); err != nil || !strings.Contains(text, "mine") {
			t.Errorf("my own frame by %s: %q, %v", sql, text, err)
		}
	}
}

// What a session tries beyond reading: conditions that leak what they are asked about,
// joins, plans, statistics, and the setting left over from a transaction before.
func TestNothingLeaksAroundTheFirm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.Pool.Exec(t.Context(), `ANALYZE ops.matter_frames`); err != nil {
		t.Fatal(err)
	}
	app := s.PoolAs(t, "rail_app")
	firm := s.mine.Firm.String()
	for _, sql := range []string{
		// a condition that fails on the row it sees would tell it in its error
		`SELECT count(*)::text FROM ops.current_frames WHERE (frame->>'secret' = 'mine' OR (frame->>'secret')::int = 0)`,
		`SELECT count(*)::text FROM ops.matter_frames a JOIN ops.matter_frames b ON b.firm_id <> a.firm_id`,
		`SELECT coalesce(max(frame->>'secret'), '') FROM ops.matter_frames WHERE firm_id = '` + s.theirs.Firm.String() + `'`,
		`SELECT coalesce(string_agg(most_common_vals::text || histogram_bounds::text, ''), '') FROM pg_stats WHERE schemaname = 'ops' AND tablename = 'matter_frames'`,
	} {
		text, err := seen(t.Context(), app, firm, sql)
		if err != nil || strings.Contains(text, "theirs") || strings.Contains(text, s.theirs.Firm.String()) {
			t.Errorf("%s: %q, %v", sql, text, err)
		}
	}
	// SET LOCAL leaves an empty setting behind, in the very same session
	conn := session(t, s.As(t, "rail_app"))
	var n int
	for _, sql := range []string{`BEGIN`, fmt.Sprintf(`SET LOCAL rail.firm_id = '%s'`, firm), `COMMIT`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM ops.current_frames`).Scan(&n); err != nil || n != 0 {
		t.Errorf("after the transaction: %d rows, %v", n, err)
	}
}

func TestAMalformedFirmIsSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	app := s.PoolAs(t, "rail_app")
	for _, firm := range []string{"acme", "' OR true --", s.mine.Firm.String() + "0", "{" + s.mine.Firm.String() + "}", " "} {
		_, err := seen(t.Context(), app, firm, `SELECT count(*)::text FROM ops.current_frames`)
		if pg.SQLState(err) != "22023" || !strings.Contains(err.Error(), "rail.firm_id") {
			t.Errorf("firm %q: %v", firm, err)
		}
	}
}

// The policy is evaluated once a statement and the key's index still serves.
func TestTheFirmIsLookedUpByKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	app := s.PoolAs(t, "rail_app")
	err := pgx.BeginFunc(t.Context(), app, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('rail.firm_id', $1, true), set_config('enable_seqscan', 'off', true)`, s.mine.Firm.String()); err != nil {
			return err
		}
		plan := strings.Join(strs(t, tx, `EXPLAIN SELECT frame FROM ops.current_frames WHERE matter_id = '`+s.mine.Matter.String()+`'`), "\n")
		if !strings.Contains(plan, "InitPlan") || strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "matter_frames_pkey") {
			t.Errorf("plan:\n%s", plan)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
