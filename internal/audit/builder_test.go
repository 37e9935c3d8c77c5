package audit_test

import (
	"strings"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// handBack claims what waits and releases it as a worker does that blames the
// builder.
func (l *ledger) handBack(f runs.Failure) runs.Claimed {
	l.t.Helper()
	l.exec(`UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() WHERE run_status = 'queued'`)
	c := l.claim("w")
	if _, err := runs.Release(l.t.Context(), l.Pool, c.Claim, f, time.Second); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// A worker's distrust of the builder is in its memory; what it leaves in the ledger
// must do for whoever asks why nothing is built.
func TestABuilderAtFaultIsSeenFromTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	l.demand(k)
	l.handBack(runs.Failure{Kind: "interrupted", Text: "the worker stopped"})
	if d := doctor(t, l, doctorOptions())["builder"]; d.State != audit.OK {
		t.Errorf("a stopped worker is taken for a bad builder: %+v", d)
	}

	first := l.handBack(runs.Failure{Kind: "transport", Text: "connection refused"})
	l.handBack(runs.Failure{Kind: "auth", Text: "the builder answered 401"})
	d := doctor(t, l, doctorOptions())["builder"]
	if d.State != audit.Warn || !strings.Contains(d.Advice, "builder.http.token_file") {
		t.Errorf("%+v", d)
	}
	wantSaid(t, d.Text, "2 claims handed back uncharged since ", "auth, the builder answered 401")
	l.force(`UPDATE ops.matter_frame_runs SET finished_at = finished_at - interval '3 minutes' WHERE run_id = $1`, first.Token.Run)
	if d := doctor(t, l, doctorOptions())["builder"]; d.State != audit.Fail {
		t.Errorf("after three minutes: %+v", d)
	}

	e := explain(t, l, k)
	wantSaid(t, e.Next, "not before", "claims are being handed back because the builder is at fault", "401", "no attempt is charged")
	if strings.Contains(e.Next, "settles") || e.Builder == nil || e.Builder.Released != 2 {
		t.Errorf("%+v: %s", e.Builder, e.Next)
	}
	if s, err := audit.ReadStatus(t.Context(), l.Pool); err != nil || s.Builder == nil || s.Builder.Kind != "auth" {
		t.Errorf("%+v, %v", s.Builder, err)
	}

	l.build(rail.Canary()) // built inside the worker
	if b := troubled(t, l); b == nil {
		t.Error("the canary's landing is taken for the builder's")
	}
	l.exec(`UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() WHERE run_status = 'queued'`)
	if err := l.land(l.claim("w")); err != nil {
		t.Fatal(err)
	}
	if b := troubled(t, l); b != nil {
		t.Errorf("still %+v after a landing", b)
	}
}

func troubled(t *testing.T, l *ledger) *audit.BuilderTrouble {
	t.Helper()
	b, err := audit.ReadBuilderTrouble(t.Context(), l.Pool)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTroubleOfLongAgoIsOver(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.demand(newKey())
	c := l.handBack(runs.Failure{Kind: "html", Text: "a page for people"})
	l.force(`UPDATE ops.matter_frame_runs SET started_at = started_at - interval '20 minutes', finished_at = finished_at - interval '20 minutes' WHERE run_id = $1`, c.Token.Run)
	if b := troubled(t, l); b != nil {
		t.Errorf("%+v", b)
	}
}

func TestMattersTellWhoParkedThem(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	idle, failed, stopped := newKey(), newKey(), newKey()
	l.build(idle)
	l.build(rail.Canary())
	l.demand(failed)
	c := l.claim("w")
	if _, err := runs.Fail(t.Context(), l.Pool, c.Claim, runs.Failure{Kind: "http_4xx", Text: "no", Permanent: true}, runs.Retry{MaxAttempts: 1, Backoff: time.Second, BackoffMax: time.Second}); err != nil {
		t.Fatal(err)
	}
	l.demand(stopped)
	if _, err := (jobs.Actor{Name: "kim", Reason: "court order"}).Park(t.Context(), l.Pool, stopped); err != nil {
		t.Fatal(err)
	}
	rows := func(f audit.MatterFilter) (out []audit.MatterRow) {
		t.Helper()
		out, err := audit.Matters(t.Context(), l.Pool, f)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := rows(audit.MatterFilter{})
	if len(got) != 3 || got[0].Key != failed || got[1].Key != stopped || got[2].Key != idle {
		t.Fatalf("%+v", got)
	}
	if f := got[0]; f.ParkedBy != "failures" || f.ParkedSince == nil || f.ParkedActor != "" {
		t.Errorf("%+v", f)
	}
	if s := got[1]; s.ParkedBy != "operator" || s.ParkedSince == nil || s.ParkedActor != "kim" || s.ParkedReason != "court order" {
		t.Errorf("%+v", s)
	}
	for name, c := range map[string]struct {
		f    audit.MatterFilter
		want int
	}{
		"parked": {audit.MatterFilter{Status: "parked"}, 2}, "idle": {audit.MatterFilter{Status: "idle"}, 1}, "queued": {audit.MatterFilter{Status: "queued"}, 0},
		"firm": {audit.MatterFilter{Firm: stopped.Firm}, 1}, "limit": {audit.MatterFilter{Limit: 1}, 1}, "other firm": {audit.MatterFilter{Firm: rail.NewUUID()}, 0},
	} {
		if got := rows(c.f); len(got) != c.want {
			t.Errorf("%s: %d rows, want %d", name, len(got), c.want)
		}
	}
}

func TestAFirmIsKnownByJobsFactsAndPauses(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	job, fact, paused := newKey(), newKey(), newKey()
	l.demand(job)
	l.fact(fact, "document.uploaded")
	if _, err := (jobs.Actor{Name: "kim", Reason: "x"}).Pause(t.Context(), l.Pool, paused.Firm); err != nil {
		t.Fatal(err)
	}
	for firm, want := range map[rail.UUID]bool{job.Firm: true, fact.Firm: true, paused.Firm: true, rail.NewUUID(): false} {
		if got, err := audit.KnownFirm(t.Context(), l.Pool, firm); err != nil || got != want {
			t.Errorf("%s: %v, %v", firm, got, err)
		}
	}
}

func TestDoctorNamesTheOldestUndecidedFact(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	old := l.fact(newKey(), "document.uploaded")
	l.age(old, 10*time.Minute)
	l.fact(newKey(), "document.uploaded")
	d := doctor(t, l, doctorOptions())["undecided_facts"]
	wantSaid(t, d.Text, "2 facts undecided", old.String())
	wantSaid(t, d.Advice, "railctl explain "+old.String())
}
