package main

import (
	"slices"
	"strings"
	"testing"

	"briefrail/deploy"
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
		for _, d := range r.as(role).diagnosed() {
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
