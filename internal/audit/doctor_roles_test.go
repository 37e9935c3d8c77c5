package audit_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
)

// A worker that logs in as one who may do anything is told of, and so is a function
// that came after the roles were applied.
func TestDoctorLooksAtTheRoles(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.GrantRoles(t)
	cfg, err := pgx.ParseConfig(l.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = "railworker/test"
	worker, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d := doctor(t, l, doctorOptions())["roles"]; d.State != audit.Warn || !strings.Contains(d.Text, "railworker as ") {
		t.Errorf("%+v", d)
	}
	if err := worker.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Pool.Exec(t.Context(), `CREATE FUNCTION ops.later() RETURNS int LANGUAGE sql RETURN 1`); err != nil {
		t.Fatal(err)
	}
	if d := doctor(t, l, doctorOptions())["roles"]; d.State != audit.Warn || !strings.Contains(d.Advice, "roles apply") {
		t.Errorf("%+v", d)
	}
}
