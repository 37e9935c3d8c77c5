package deploy_test

import (
	"context"
	"strings"
	"testing"

	"briefrail/internal/rail"
)

// The application's own account is a member of rail_app and logs in under its own
// name, as docs/DATABASE.md says. The functions that run as the owner know it all the
// same: it sees one firm.
func TestAMemberOfTheApplicationSeesOneFirm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id, matter := rail.NewUUID().String(), s.theirs.Matter.String()
	// what another firm's session has asked for
	ask := `SELECT ops.submit_intent('` + id + `', '` + s.theirs.Firm.String() + `', '` + matter + `', 'brief.regenerate', NULL, sha256('theirs'), NULL)::text`
	if got, err := seen(t.Context(), s.PoolAs(t, "rail_app"), s.theirs.Firm.String(), ask); err != nil || !strings.Contains(got, "accepted") {
		t.Fatalf("the other firm asks: %s, %v", got, err)
	}
	for _, role := range []string{"rail_app", s.member(t, "rail_app")} {
		app := s.PoolAs(t, role)
		for who, firm := range map[string]string{"mine": s.mine.Firm.String(), "nobody": ""} {
			for _, sql := range []string{
				`SELECT coalesce(ops.find_intent('` + id + `')::text, '')`,
				`SELECT nullif(ops.matter_revision('` + s.theirs.Firm.String() + `', '` + matter + `'), 0)::text || 'theirs'`,
				strings.Replace(ask, id, rail.NewUUID().String(), 1),
				`SELECT coalesce(string_agg(f::text, ''), '') FROM ops.matter_frames f`,
			} {
				got, err := seen(t.Context(), app, firm, `SELECT coalesce((`+sql+`), '')`)
				if err != nil || strings.Contains(got, "theirs") || strings.Contains(got, matter) {
					t.Errorf("%s as %s: %s: %q, %v", role, who, sql, got, err)
				}
			}
		}
		if got, err := seen(t.Context(), app, s.theirs.Firm.String(), `SELECT ops.find_intent('`+id+`')::text`); err != nil || !strings.Contains(got, matter) {
			t.Errorf("%s of the firm itself: %q, %v", role, got, err)
		}
	}
}

// member is an account of its own that is a member of the role.
func (s *stage) member(t *testing.T, role string) string {
	t.Helper()
	name := "shop_" + strings.ReplaceAll(rail.NewUUID().String(), "-", "")
	unlock, err := s.LockRoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := s.Pool.Exec(t.Context(), `CREATE ROLE `+name+` LOGIN IN ROLE `+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Pool.Exec(context.Background(), `DROP ROLE `+name) })
	return name
}
