package console_test

import (
	"net/http"
	"testing"

	"briefrail/internal/console"
	"briefrail/internal/pg/pgtest"
)

// TestTheOperatorsRoleIsEnough asks every page and every act with the rights that
// operators have, and what is refused to those who only look.
func TestTheOperatorsRoleIsEnough(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	operator := serveOn(t, db, func(o *console.Options) { o.DB, o.ShowContent = db.PoolAs(t, "rail_operator"), true })
	zombie := operator.zombie()
	for _, target := range []string{"/", of(zombie), "/runs", "/parked", "/dispatch?verb=pause&scope=all", "/outbox"} {
		wants(t, operator.get(target), http.StatusOK)
	}
	wants(t, operator.get("/content?of="+zombie.String()), http.StatusServiceUnavailable, "permission denied")
	secret, k := operator.login(), newKey()
	operator.demand(k)
	for _, verb := range []string{"park", "unpark", "cancel", "demand"} {
		if a := operator.act(secret, k, verb); a.status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", verb, a.status, words(a))
		}
	}
	for _, verb := range []string{"pause", "resume"} {
		if a := operator.post("/dispatch", "secret", secret, "verb", verb, "scope", "all", "why", "a test"); a.status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", verb, a.status, words(a))
		}
	}
	looker := serveOn(t, db, func(o *console.Options) { o.DB = db.PoolAs(t, "rail_readonly") })
	wants(t, looker.get("/"), http.StatusOK, "1 matter owes a build")
	wants(t, looker.act(looker.login(), k, "unpark"), http.StatusServiceUnavailable, "permission denied")
}
