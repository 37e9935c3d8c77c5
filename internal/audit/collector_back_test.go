package audit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/outbox"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// A server that is started from a copy of its files has the identifier and the timeline
// of before: who lived through it sees the end of the log go back.
func TestCollectorSeesAPlainCopyGoBack(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	db := pgtest.NewOn(t, cluster, pgtest.Ops())
	c := audit.NewCollector(db.Pool, audit.Options{CacheFor: time.Nanosecond, Timeout: 20 * time.Second})
	changed := func(want float64, when string) {
		t.Helper()
		got, err := scrape(t, c)
		if err != nil || got["rail_ledger_changed"] != want {
			t.Errorf("%s: %v, %v", when, got["rail_ledger_changed"], err)
		}
	}
	restart := func(while func() error) {
		t.Helper()
		if err := cluster.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := while(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.Pool.Reset()
	}
	data, copied := filepath.Join(cluster.Dir, "data"), filepath.Join(cluster.Dir, "copied")
	changed(0, "at first")
	restart(func() error { return exec.Command("cp", "-a", data, copied).Run() })
	changed(0, "after a restart")
	const much = `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, 3000)`
	if _, err := db.Pool.Exec(t.Context(), much); err != nil {
		t.Fatal(err)
	}
	changed(0, "while it goes on")
	restart(func() error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		return os.Rename(copied, data)
	})
	changed(1, "back at the copy")
	if _, err := db.Pool.Exec(t.Context(), much+" UNION ALL SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, 3000)"); err != nil {
		t.Fatal(err)
	}
	changed(1, "with more log than before")
	if _, err := outbox.BumpEpoch(t.Context(), db.Pool, time.Now(), "ada", "restored"); err != nil {
		t.Fatal(err)
	}
	changed(0, "with the epoch raised")
}
