package authority_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// What the ledger reads of a guarded table its owner must be able to read: guarding
// grants what it may, and says what else is missing.
func TestGuardingLooksAtTheRightsOfTheLedger(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.GrantRoles(t) // from here on the functions are rail_owner's
	exec(t, s.Pool, `CREATE SCHEMA "the old"; CREATE TABLE "the old".briefs (matter_id uuid PRIMARY KEY, n bigint, brief jsonb);
		GRANT INSERT, UPDATE ON "the old".briefs TO `+s.oldRole)
	guard := authority.Guard{Table: `"the old".briefs`, Key: "matter_id", Writer: "old", Sequence: "n"}
	err := s.c.Guard(t.Context(), guard)
	var said *pgconn.PgError
	if wantState(t, "a table in a closed schema", err, "42501"); !errors.As(err, &said) || said.Hint != `GRANT USAGE ON SCHEMA "the old" TO rail_owner` {
		t.Fatalf("what is to be granted is not said: %+v", said)
	}
	exec(t, s.Pool, said.Hint)
	if err := s.c.Guard(t.Context(), guard); err != nil {
		t.Fatal(err)
	}
	const readable = `SELECT has_column_privilege('rail_owner', '"the old".briefs', $1, 'SELECT')`
	for column, want := range map[string]bool{"matter_id": true, "n": true, "brief": false} {
		if got := value[bool](t, s.Pool, readable, column); got != want {
			t.Errorf("column %s can be read: %v", column, got)
		}
	}

	// the table that was guarded before the ledger changed hands
	operator := authority.Controller{DB: s.PoolAs(t, "rail_operator"), Actor: s.c.Actor}
	m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Budget: time.Minute}
	_, err = operator.Plan(t.Context(), m)
	const missing = "GRANT SELECT (matter_id, revision) ON public.legacy_briefs TO rail_owner"
	if s.wantRefusal(t, err, "change_plan_blocked"); !strings.Contains(err.Error(), missing) {
		t.Fatal(err)
	}
	exec(t, s.Pool, missing)
	if _, err := operator.Plan(t.Context(), m); err != nil {
		t.Error(err)
	}
}
