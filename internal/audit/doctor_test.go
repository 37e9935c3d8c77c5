package audit_test

import (
	"strings"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/migrations"
)

func doctorOptions() audit.DoctorOptions {
	return audit.DoctorOptions{
		MinSchema: migrations.MinVersion, MaxSchema: migrations.MaxVersion, MaxConns: 8, Lease: time.Minute, Renew: true,
		BuilderTimeout: 15 * time.Minute, OutboxRetention: 7 * 24 * time.Hour, ReceiptsRetention: 30 * 24 * time.Hour, CanaryEvery: time.Minute,
	}
}

func doctor(t *testing.T, l *ledger, o audit.DoctorOptions) map[string]audit.Diagnosis {
	t.Helper()
	all, err := audit.Doctor(t.Context(), l.Pool, o)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]audit.Diagnosis{}
	for _, d := range all {
		if d.Check == "" || d.Text == "" || (d.State != audit.OK && d.State != audit.Unknown && d.Advice == "") {
			t.Errorf("%+v lacks a word", d)
		}
		if strings.Contains(d.Text, "%!") || strings.Contains(d.Text, "cannot be looked at") {
			t.Errorf("%s: %s", d.Check, d.Text)
		}
		byName[d.Check] = d
	}
	return byName
}

func TestDoctorFindsAHealthyDatabaseWell(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.GrantRoles(t)
	for name, d := range doctor(t, l, doctorOptions()) {
		switch name {
		case "canary", "autovacuum", "synchronous_commit", "connections", "oldest_snapshot", "idle_in_transaction":
			// the test server is shared, does not sync nor vacuum, and has no canary
		default:
			if d.State != audit.OK {
				t.Errorf("%+v", d)
			}
		}
	}
}

func TestDoctorSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.build(newKey())
	l.force(`UPDATE ops.matter_frame_runs SET started_at = started_at - interval '14 minutes'`)
	k := newKey()
	l.demand(k)
	by := jobs.Actor{Name: "kim", Reason: "test"}
	if _, err := by.Park(t.Context(), l.Pool, k); err != nil {
		t.Fatal(err)
	}
	if _, err := by.Pause(t.Context(), l.Pool, k.Firm); err != nil {
		t.Fatal(err)
	}
	l.demand(newKey())
	l.exec(`UPDATE ops.matter_frame_jobs SET not_before = not_before - interval '10 minutes' WHERE run_status = 'queued'`)
	l.age(l.fact(newKey(), "document.uploaded"), 10*time.Minute)
	l.exec(`UPDATE ops.ledger SET publishing = 'required', timeline = timeline + 1`)
	l.exec(`ALTER TABLE ops.matter_frame_jobs SET (autovacuum_enabled = false)`)
	o := doctorOptions()
	o.MinSchema, o.MaxSchema = migrations.MaxVersion+1, migrations.MaxVersion+1
	o.OutboxRetention = 60 * 24 * time.Hour

	got := doctor(t, l, o)
	for check, want := range map[string]audit.State{
		"schema_version": audit.Fail, "ledger_identity": audit.Fail, "autovacuum": audit.Fail, "lease_and_builds": audit.Warn,
		"retention": audit.Warn, "parked": audit.Warn, "undecided_facts": audit.Fail, "workers": audit.Fail,
		"dispatch_pauses": audit.Warn, "canary": audit.Warn, "roles": audit.Warn, "publishing": audit.Fail, "pooler": audit.OK, "read_write": audit.OK,
	} {
		if got[check].State != want {
			t.Errorf("%s: %+v, want %s", check, got[check], want)
		}
	}
}

func TestDoctorLeavesOutWhatItWasNotToldOf(t *testing.T) {
	t.Parallel()
	got := doctor(t, newLedger(t), audit.DoctorOptions{})
	for _, check := range []string{"lease_and_builds", "retention", "canary"} {
		if d, ok := got[check]; ok {
			t.Errorf("%+v", d)
		}
	}
}
