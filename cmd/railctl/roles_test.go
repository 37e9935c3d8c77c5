package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"briefrail/deploy"
	"briefrail/internal/audit"
	"briefrail/internal/pg/pgtest"
)

// as is the same rig, with a railctl that logs in under another role.
func (r *rig) as(role string) *rig {
	r.t.Helper()
	other := *r
	other.env = slices.Clone(r.env)
	i := slices.Index(other.env, "RAIL_DATABASE_URL="+r.DSN)
	other.env[i] = "RAIL_DATABASE_URL=" + r.As(r.t, role)
	return &other
}

// examined is all that the doctor says.
func (r *rig) examined() map[string]audit.Diagnosis {
	r.t.Helper()
	got := r.ctl("doctor", "-o", "json")
	var e struct{ Data []audit.Diagnosis }
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || len(e.Data) < 20 {
		r.t.Fatalf("%v: %s%s", err, got.out, got.err)
	}
	out := map[string]audit.Diagnosis{}
	for _, d := range e.Data {
		out[d.Check] = d
	}
	return out
}

// Every change that railctl can make, as rail_operator: it has no right on a table.
func TestOperatorMayMakeEveryChange(t *testing.T) {
	r := newRig(t)
	r.GrantRoles(t)
	for _, args := range mutations(r) {
		got := r.as("rail_operator").ctl(append(args, "--reason", "because")...)
		if got.code != exitOK {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	if n := value[int](r, `SELECT count(*) FROM ops.audit_log WHERE reason = 'because'`); n < 10 {
		t.Errorf("%d audit rows", n)
	}
}

// Every look at the ledger, as rail_readonly and as rail_operator; and the former can
// change nothing.
func TestEveryLookWithoutRightsToChange(t *testing.T) {
	r := newRig(t)
	r.GrantRoles(t)
	for _, args := range everyKind(r) {
		if slices.Equal(args, []string{"migrate", "up"}) {
			continue // the migrator's
		}
		changes := slices.Contains(args, "--dry-run") || slices.Contains(args, "--reason")
		for _, role := range []string{"rail_readonly", "rail_operator"} {
			got := r.as(role).ctl(args...)
			denied := strings.Contains(got.err+got.out, "permission denied")
			switch {
			case slices.Contains(args, "--show-content"): // neither may read what is in a frame
				if !denied {
					t.Errorf("%s: %v: exit %d: %s", role, args, got.code, got.out)
				}
			case denied && (role == "rail_operator" || !changes):
				t.Errorf("%s: %v: exit %d: %s%s", role, args, got.code, got.out, got.err)
			}
		}
	}
	for _, args := range mutations(r) {
		got := r.as("rail_readonly").ctl(append(args, "--reason", "because")...)
		if got.code == exitOK || !strings.Contains(got.err, "permission denied") {
			t.Errorf("%v as rail_readonly: exit %d: %s%s", args, got.code, got.out, got.err)
		}
	}
	for _, role := range []string{"rail_readonly", "rail_operator"} {
		for _, d := range r.as(role).examined() {
			if d.State == "unknown" && (role == "rail_operator" || !strings.Contains(d.Text, "hidden from this user")) {
				t.Errorf("%s: the doctor cannot see %s: %s", role, d.Check, d.Text)
			}
		}
	}
}

func TestRolesVerbs(t *testing.T) {
	t.Parallel()
	if got := call(t, nil, "roles", "print"); got.code != exitOK || got.out != deploy.Roles {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	r := rigOn(t, pgtest.Empty(t))
	unlock, err := r.LockRoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if got := decode[rolesApplied](r, "roles.apply", "roles", "apply"); got.Database != r.Name || got.By == "" {
		t.Errorf("applied %+v", got)
	}
	r.as("rail_migrator").ok("migrate", "up")
	r.as("rail_migrator").ok("roles", "apply")
	r.as("rail_operator").ok("status")
	got := r.as("rail_worker").ctl("roles", "apply")
	if got.code != exitError || !strings.Contains(got.err, "nothing was changed") || !strings.Contains(got.err, "CREATEROLE") {
		t.Errorf("as rail_worker: exit %d: %s", got.code, got.err)
	}
}

// Through a transaction-mode pooler railctl works as the daemons do; migrations are
// refused there with the reason.
func TestRailctlThroughAPooler(t *testing.T) {
	r := newRig(t)
	r.GrantRoles(t)
	r.landed("b1")
	through := r.Pooler(t, nil)
	pooled := *r
	pooled.env = []string{"USER=ada", "RAIL_DATABASE_URL=" + through(r.As(t, "rail_operator")), "RAIL_DATABASE_STATEMENT_CACHE=0"}
	pooled.ok("status")
	pooled.ok("matter", "park", pooled.one().String(), "--reason", "x")
	if d := pooled.examined()["pooler"]; d.State != "warn" {
		t.Errorf("the doctor says of the pooler: %+v", d)
	}
	for cache, verbs := range map[string][][]string{
		"0":   {{"migrate", "up"}},
		"256": {{"migrate", "up"}, {"status"}, {"roles", "apply"}},
	} {
		pooled.env[2] = "RAIL_DATABASE_STATEMENT_CACHE=" + cache
		for _, args := range verbs {
			got := pooled.ctl(args...)
			if got.code != exitUsage || !strings.Contains(got.err, "a pooler stands between") || !strings.Contains(got.err, "connect to PostgreSQL itself") {
				t.Errorf("%v with a cache of %s: exit %d: %s", args, cache, got.code, got.err)
			}
		}
	}
}
