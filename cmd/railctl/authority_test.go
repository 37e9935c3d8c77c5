package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/authority"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// adopted is a rig on which another writer has every bucket, with a guarded table. The
// session is a superuser's: it stands for the rail and, of the old writer, for all.
type adopted struct {
	*rig
	role string
	key  rail.Key
}

const why = "--reason=adopting the rail"

func newAdopted(t *testing.T) *adopted {
	t.Helper()
	r := newRig(t)
	a := &adopted{rig: r, key: newKey(), role: value[string](r, `SELECT current_user::text`)}
	r.exec(`CREATE SCHEMA old; CREATE TABLE old.briefs (matter_id uuid PRIMARY KEY, revision bigint NOT NULL, brief jsonb NOT NULL);
	  CREATE INDEX ON old.briefs (ops.matter_bucket(matter_id), revision)`)
	r.ok("authority", "writers", "register", "rail", "--role", a.role, "--role", "rail_worker", why)
	r.ok("authority", "writers", "register", "old", "--role", a.role, "--importer", a.role, "--endpoint", "http://127.0.0.1:1/", why)
	r.ok("authority", "configure", "--writer", "old", "--all", "--yes", why)
	r.ok("authority", "guard", "old.briefs", "--key", "matter_id", "--sequence", "revision", "--writer", "old", why)
	return a
}

func (a *adopted) scope() string { return scopeOf(a.key) }

// write has the old writer decide, and its decision imported where that is wanted.
func (a *adopted) write(revision int64, imported bool) {
	a.t.Helper()
	brief := briefOf(revision)
	a.exec(`INSERT INTO old.briefs VALUES ($1, $2, $3) ON CONFLICT (matter_id) DO UPDATE SET revision = EXCLUDED.revision, brief = EXCLUDED.brief`, a.key.Matter, revision, brief)
	if !imported {
		return
	}
	if err := a.bring(revision); err != nil {
		a.t.Fatal(err)
	}
}

func briefOf(revision int64) string { return fmt.Sprintf(`{"revision": %d}`, revision) }

// bring imports a decision of the old writer.
func (a *adopted) bring(revision int64) error {
	brief := []byte(briefOf(revision))
	checked, err := frames.Check(brief, 1<<20)
	if err != nil {
		return err
	}
	_, err = authority.Import(a.t.Context(), a.Pool, authority.Imported{Key: a.key, Sequence: revision, Frame: brief, Digest: checked.Digest, SchemaVersion: "old/1", Builder: "old"})
	return err
}

// planned returns a change whose shadow was compared.
func (a *adopted) planned(args ...string) string {
	a.t.Helper()
	id := rail.NewUUID().String()
	a.ok(append([]string{"authority", "plan", a.scope(), "--change", id, "--deadline", "1m", "--budget", "1m", why}, args...)...)
	a.ok("authority", "shadow", id, why)
	return id
}

func TestABucketCrossesAndComesBack(t *testing.T) {
	a := newAdopted(t)
	a.write(7, true)
	id := a.planned()
	got := decode[stepped](a.rig, "authority.cross", "authority", "cross", id, "--yes", why)
	if got.Phase != "advanced" || got.MeasuredPause == nil || got.FinalSequence == nil || *got.FinalSequence != 7 {
		t.Fatalf("%+v", got)
	}
	place := decode[authority.Place](a.rig, "authority.bucket", "authority", "bucket", a.key.String())
	if place.Writer != "rail" || place.Epoch != 2 || place.Scope != a.scope() {
		t.Errorf("%+v", place)
	}
	if again := decode[stepped](a.rig, "authority.cross", "authority", "cross", id, "--yes", why); !cmp.Equal(again, got) {
		t.Errorf("again it was something else: %s", cmp.Diff(got, again))
	}
	back := a.ctl("authority", "rollback", id, why)
	if back.code != exitRefused || !strings.Contains(back.err, "old_side_ready: not met, no restore drill is on record") || !strings.Contains(back.err, "only_writer: met") {
		t.Fatalf("exit %d: %s", back.code, back.err)
	}
	a.ok("authority", "exercised", a.scope(), "restore", why)
	rolled := decode[stepped](a.rig, "authority.rollback", "authority", "rollback", id, "--deadline", "1m", "--budget", "1m", why)
	a.ok("authority", "cross", rolled.ID.String(), "--yes", why)
	if place := decode[authority.Place](a.rig, "authority.bucket", "authority", "bucket", a.key.Matter.String()); place.Writer != "old" || place.Epoch != 3 {
		t.Errorf("%+v", place)
	}
	a.write(8, true)
	for _, verb := range []string{"plan", "close", "advance", "shadow"} {
		if n := value[int](a.rig, `SELECT count(*) FROM ops.audit_log WHERE action = 'authority.' || $1 AND reason = 'adopting the rail' AND actor LIKE 'ada@%'`, verb); n == 0 {
			t.Errorf("no audit row of %s", verb)
		}
	}
}

func TestEachStepOfAChange(t *testing.T) {
	a := newAdopted(t)
	a.write(1, true)
	id := a.planned()
	if got := a.ctl("authority", "seal", id, why); got.code != exitRefused || !strings.Contains(got.err, "is shadowed: seal needs") {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	for _, step := range [][2]string{{"close", "closing"}, {"drain", "drained"}, {"seal", "sealed"}, {"verify", "verified"}, {"advance", "advanced"}, {"complete", "completed"}, {"retire", "retired"}} {
		before := a.contents()
		a.ok("authority", step[0], id, "--dry-run")
		if diff := cmp.Diff(before, a.contents()); diff != "" {
			t.Errorf("a dry run of %s changed something:\n%s", step[0], diff)
		}
		a.ok("authority", step[0], id, "--yes", why)
		if got := decode[told](a.rig, "authority.show", "authority", "show", id); got.Phase != step[1] {
			t.Errorf("after %s: %s", step[0], got.Phase)
		}
		d := decode[authority.Diagnosis](a.rig, "authority.doctor", "authority", "doctor", a.scope())
		if d.Why == "" || step[0] != "advance" && d.Next == "" {
			t.Errorf("after %s the doctor says nothing: %+v", step[0], d)
		}
		if table := a.ok("authority", "show", id); !strings.Contains(table, step[1]) {
			t.Errorf("%s", table)
		}
	}
}

func TestWhatWasNotImportedDoesNotCross(t *testing.T) {
	a := newAdopted(t)
	a.write(1, true)
	a.write(2, false)
	id := a.planned()
	got := a.ctl("authority", "cross", id, "--yes", why)
	if got.code != exitRefused || !strings.Contains(got.err, "found what must not cross") || !strings.Contains(got.out, "aborted") {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if shown := a.ok("authority", "show", id); !strings.Contains(shown, "sequence 2 is not imported, only 1") {
		t.Errorf("%s", shown)
	}
	a.write(3, true) // the old writer goes on as before
}

// The other side brings over what was late, and its heads are compared.
func TestTheOldSideIsAskedInsideThePause(t *testing.T) {
	a := newAdopted(t)
	a.write(1, true)
	a.write(2, false)
	asked := 0
	digest := strings.Repeat("00", 32)
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/catch-up":
			asked++
			if err := a.bring(2); err != nil {
				t.Error(err)
			}
		case "/v1/heads":
			_ = json.NewEncoder(w).Encode([]map[string]any{{"firm_id": a.key.Firm, "matter_id": a.key.Matter, "revision": 2, "digest": digest}})
		}
	}))
	t.Cleanup(old.Close)
	id := a.planned()
	got := a.ctl("authority", "cross", id, "--old-side", old.URL, "--yes", why)
	if got.code != exitRefused || asked != 1 {
		t.Fatalf("exit %d, asked %d times: %s", got.code, asked, got.err)
	}
	if shown := a.ok("authority", "show", id); !strings.Contains(shown, "there") || !strings.Contains(shown, "000000000000") || strings.Contains(shown, "not imported") {
		t.Errorf("%s", shown)
	}
	digest = value[string](a.rig, `SELECT encode(digest, 'hex') FROM ops.matter_frames WHERE source_sequence = 2`)
	if b, err := hex.DecodeString(digest); err != nil || len(b) != 32 {
		t.Fatal(digest, err)
	}
	a.ok("authority", "cross", a.planned(), "--old-side", old.URL, "--yes", why)
}

func TestHoldsStopWideningUntilTheyAreReleased(t *testing.T) {
	a := newAdopted(t)
	a.exec(`SELECT ops.raise_hold(NULL, 'late_facts', '{"value": 3}')`)
	if got := a.ctl("authority", "plan", a.scope(), why); got.code != exitRefused || !strings.Contains(got.err, "late_facts") {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	hold := strings.TrimSpace(a.ok("authority", "holds", "-o", "name"))
	if got := a.ctl("authority", "release", hold, "--class", "boredom", why); got.code != exitUsage {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	a.ok("authority", "release", hold, "--class", "routing", why)
	if got := a.ctl("authority", "release", hold, "--class", "routing", why); got.code != exitNotFound {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	a.planned()
	if out := a.ok("authority", "holds", "--all"); !strings.Contains(out, "routing") {
		t.Errorf("%s", out)
	}
}

func TestBadInputOfAuthorityVerbs(t *testing.T) {
	r := newRig(t)
	nobodys := rail.NewUUID().String()
	for _, c := range []struct {
		want int
		says string
		args []string
	}{
		{exitUsage, "needs --reason", []string{"plan", "5"}},
		{exitUsage, "is not a scope", []string{"plan", "matters/bucket-64", why}},
		{exitUsage, "is not a scope", []string{"doctor", "matters/bucket-7"}},
		{exitUsage, "there are 0 to 63", []string{"doctor", "64"}},
		{exitUsage, "change:", []string{"close", "x", why}},
		{exitUsage, "matter:", []string{"bucket", "x"}},
		{exitUsage, "--yes", []string{"cross", nobodys, why}},
		{exitUsage, "--old-side", []string{"cross", nobodys, "--yes", "--old-side", "ftp://x", why}},
		{exitUsage, "--builder", []string{"shadow", nobodys, "--builder", "x", why}},
		{exitUsage, "--rules", []string{"shadow", nobodys, "--rules", "/nowhere", why}},
		{exitUsage, "roles", []string{"writers", "register", "old", why}},
		{exitUsage, "--all", []string{"configure", "--writer", "rail", why}},
		{exitUsage, "--key COLUMN or --scope", []string{"guard", "x", "--writer", "old", why}},
		{exitUsage, "deletion or restore", []string{"exercised", "5", "lunch", why}},
		{exitUsage, "--kind", []string{"paths", "watch", "old", "x", why}},
		{exitNotFound, "", []string{"plan", "5", why}},
		{exitNotFound, "", []string{"show", nobodys}},
		{exitNotFound, "no change", []string{"close", nobodys, why}},
		{exitOK, "", []string{"doctor", "5"}},
		{exitOK, "", []string{"status"}},
		{exitOK, "", []string{"blockers"}},
		{exitOK, "", []string{"changes"}},
		{exitOK, "", []string{"paths", "list"}},
		{exitOK, "", []string{"writers", "list"}},
	} {
		got := r.ctl(append([]string{"authority"}, c.args...)...)
		if got.code != c.want || !strings.Contains(got.err, c.says) {
			t.Errorf("%s: exit %d, want %d: %s", strings.Join(c.args, " "), got.code, c.want, got.err)
		}
	}
}

func TestTheFenceComesAway(t *testing.T) {
	r := newRig(t)
	r.ok("authority", "configure", "--writer", "rail", "3", "matters/bucket-07", why)
	if out := r.ok("authority", "status"); !strings.Contains(out, "matters/bucket-03") || !strings.Contains(out, "matters/bucket-07") {
		t.Errorf("%s", out)
	}
	r.ok("authority", "close-restored", "--yes", why)
	r.ok("authority", "open-restored", "3", "--writer", "rail", "--epoch", "9", "--yes", why)
	r.ok("authority", "open-restored", "7", "--writer", "rail", "--epoch", "9", "--yes", why)
	r.ok("authority", "remove", "--yes", why)
	if out := r.ok("authority", "status"); !strings.Contains(out, "the rail writes everywhere") {
		t.Errorf("%s", out)
	}
}

func TestRetirementLeavesNoRight(t *testing.T) {
	a := newAdopted(t)
	if got := a.ctl("authority", "retire-writer", "old", "--yes", why); got.code != exitRefused {
		t.Fatalf("a writer with authority was retired: exit %d, %s", got.code, got.err)
	}
	// tried dry: the rail's roles are those of every test
	if got := a.ctl("authority", "retire-writer", "rail", "--revoke", "--dry-run"); got.code != exitRefused || !strings.Contains(got.err, "is the rail itself") {
		t.Errorf("the rail was retired: exit %d, %s", got.code, got.err)
	}
	if got := a.ctl("authority", "retire-writer", "nobody", "--yes", why); got.code != exitNotFound {
		t.Errorf("nobody was retired: exit %d, %s", got.code, got.err)
	}
	idle := "idle_" + strings.ReplaceAll(rail.NewUUID().String(), "-", "")
	a.exec(`CREATE ROLE ` + idle + ` LOGIN`)
	t.Cleanup(func() {
		if _, err := a.Pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+idle+`; DROP ROLE `+idle); err != nil {
			t.Error(err)
		}
	})
	a.exec(`GRANT INSERT ON old.briefs TO ` + idle)
	a.ok("authority", "writers", "register", "idle", "--role", idle, why)
	for _, dry := range []bool{true, false} {
		args := []string{"authority", "retire-writer", "idle", "--revoke", "--yes", why}
		if dry {
			args = append(args, "--dry-run")
		}
		if got := decode[retiredWriter](a.rig, "authority.retire-writer", args...); got.Writer != "idle" || got.DryRun != dry || len(got.Left) != 0 {
			t.Errorf("%+v", got)
		}
		if may := value[bool](a.rig, `SELECT has_table_privilege($1, 'old.briefs', 'INSERT') AND rolcanlogin FROM pg_roles WHERE rolname = $1`, idle); may != dry {
			t.Errorf("dry run %v: the role may write and log in: %v", dry, may)
		}
	}
}

func TestPausesAreToldInMilliseconds(t *testing.T) {
	t.Parallel()
	short, long := 12345*time.Microsecond, 90*time.Second
	for want, d := range map[string]*time.Duration{"": nil, "12.3ms": &short, "1m30s": &long} {
		if got := pauseText(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
