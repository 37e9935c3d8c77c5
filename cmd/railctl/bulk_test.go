package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/config"
	"briefrail/internal/rail"
)

func TestBulkDemandOfAnOlderBuilder(t *testing.T) {
	r := newRig(t)
	old, fresh := r.landed("b1"), r.landed("b2")
	done := decode[bulkDone](r, "matter.demand.many", "matter", "demand", "--all", "--not-by-builder", "b2", "--reason", "new model", "--yes")
	if done.Matched != 1 || done.Changed != 1 || !done.Complete {
		t.Errorf("done %+v", done)
	}
	if r.status(old) != "queued" || r.status(fresh) != "idle" {
		t.Errorf("old is %s, fresh is %s", r.status(old), r.status(fresh))
	}
	if p := value[int](r, `SELECT priority FROM ops.matter_frame_jobs WHERE run_status = 'queued'`); p != int(rail.Bulk) {
		t.Errorf("priority %d, want bulk", p)
	}
}

func TestBulkGoesInPagesAndStopsAtTheLimit(t *testing.T) {
	r := newRig(t)
	firm := rail.NewUUID()
	r.queued(firm, pageSize+20)
	r.queued(rail.NewUUID(), 3)
	done := decode[bulkDone](r, "matter.park.many", "matter", "park", "--firm", firm.String(), "--limit", "510", "--reason", "x", "--yes")
	if done.Matched != pageSize+20 || done.Changed != 510 || !done.Complete || done.Last == nil {
		t.Errorf("done %+v", done)
	}
	rest := decode[bulkDone](r, "matter.park.many", "matter", "park", "--firm", firm.String(), "--after", done.Last.String(), "--reason", "x", "--yes")
	if rest.Changed != 10 {
		t.Errorf("rest %+v", rest)
	}
	if n := value[int](r, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'parked'`); n != pageSize+20 {
		t.Errorf("%d parked", n)
	}
	names := r.ok("matter", "unpark", "--all", "--dry-run", "-o", "name")
	if n := strings.Count(names, "\n"); n != pageSize+20 {
		t.Errorf("%d names", n)
	}
	back := decode[bulkDone](r, "matter.unpark.many", "matter", "unpark", "--all", "--reason", "x", "--yes")
	if back.Changed != pageSize+20 || back.Skipped != 0 {
		t.Errorf("back %+v", back)
	}
}

func TestBulkPreviewTellsTheCount(t *testing.T) {
	r := newRig(t)
	r.queued(rail.NewUUID(), 7)
	got := r.at("n\n", "matter", "park", "--all", "--status", "queued", "--limit", "5", "--reason", "x")
	if got.code != exitError || !strings.Contains(got.err, "park 5 matter(s)") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// A bulk change that fails half way tells what is done, and where to go on.
func TestBulkReportsAPartialResult(t *testing.T) {
	r := newRig(t)
	r.queued(rail.NewUUID(), pageSize+1)
	var out strings.Builder
	a := &app{env: r.env, stdout: &out, stderr: &strings.Builder{}, format: "table", now: time.Now}
	s := &session{app: a, cfg: &config.Config{}, pool: r.Pool}
	boom, pages := errors.New("boom"), 0
	err := s.bulk(t.Context(), &change{yes: true}, &selection{all: true}, bulk{"matter.test", "test %d", func(_ context.Context, _ pgx.Tx, keys []rail.Key) ([]rail.Key, error) {
		if pages++; pages > 1 {
			return nil, boom
		}
		return keys[1:], nil
	}})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "stopped after 500 of 501") {
		t.Errorf("err %v", err)
	}
	if !strings.Contains(out.String(), "changed 499 of 501 matter(s); 1 skipped") || !strings.Contains(out.String(), "--after ") {
		t.Errorf("said %q", out.String())
	}
}

func TestSelectionMistakes(t *testing.T) {
	r := newRig(t)
	k := r.one()
	for _, c := range []struct {
		says string
		args []string
	}{
		{"name a MATTER, or select many", []string{"demand"}},
		{"name a MATTER, or select many", []string{"demand", "--not-by-builder", "b1"}},
		{"not both", []string{"demand", k.String(), "--all"}},
		{"use one of them", []string{"demand", "--all", "--firm", k.Firm.String()}},
		{"--status", []string{"park", "--all", "--status", "idle"}},
		{"--limit", []string{"demand", "--all", "--limit", "-1"}},
		{"--after", []string{"demand", "--all", "--after", "x"}},
		{"firm", []string{"demand", "--firm", "x"}},
		{"--priority", []string{"demand", k.String(), "--priority", "urgent"}},
		{"accepts 1 arg", []string{"cancel"}},
	} {
		got := r.ctl(append(append([]string{"matter"}, c.args...), "--reason", "x", "--yes")...)
		if got.code != exitUsage || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d: %s", c.args, got.code, got.err)
		}
	}
}
