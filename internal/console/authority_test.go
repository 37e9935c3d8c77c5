package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
	"briefrail/internal/console"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// adoption is a ledger beside an old writer, who has authority over all buckets and
// keeps its Briefs in a table of its own. Both act under the test's role.
type adoption struct {
	*rig
	c     authority.Controller
	key   rail.Key
	scope string
}

// adopting has the old writer decide one Brief, and the importer bring it in.
func adopting(r *rig) *adoption {
	r.t.Helper()
	a := &adoption{rig: r, key: newKey(), c: authority.Controller{DB: r.Pool, Actor: authority.Actor{Name: "ada", Reason: "the rail is adopted"}}}
	a.scope = fmt.Sprintf("matters/bucket-%02d", rail.Bucket(a.key.Matter))
	r.exec(`CREATE TABLE public.legacy_briefs (matter_id uuid PRIMARY KEY, brief jsonb NOT NULL, revision bigint NOT NULL)`)
	r.exec(`CREATE INDEX ON public.legacy_briefs (ops.matter_bucket(matter_id), revision)`)
	me, endpoint := value[string](r, `SELECT current_user::text`), "http://old.example/briefs"
	var scopes []string
	for b := range rail.Buckets {
		scopes = append(scopes, fmt.Sprintf("matters/bucket-%02d", b))
	}
	a.must(a.c.RegisterWriter(r.t.Context(), authority.Writer{Name: "rail", Kind: "rail", Roles: []string{me}}))
	a.must(a.c.RegisterWriter(r.t.Context(), authority.Writer{Name: "old", Kind: "external", Roles: []string{me}, Importer: &me, Endpoint: &endpoint}))
	_, err := a.c.Configure(r.t.Context(), scopes, "old")
	a.must(err)
	a.must(a.c.Guard(r.t.Context(), authority.Guard{Table: "public.legacy_briefs", Key: "matter_id", Writer: "old", Sequence: "revision"}))
	r.exec(`INSERT INTO public.legacy_briefs VALUES ($1, '{"n": 1}', 7)`, a.key.Matter)
	_, err = authority.Import(r.t.Context(), r.Pool, authority.Imported{Key: a.key, Sequence: 7, Frame: []byte(`{"n":1}`), Digest: a.digest(), SchemaVersion: "1", Builder: "old"})
	a.must(err)
	return a
}

func (a *adoption) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *adoption) digest() [32]byte {
	a.t.Helper()
	checked, err := frames.Check([]byte(`{"n":1}`), 1<<10)
	a.must(err)
	return checked.Digest
}

func (a *adoption) planned() rail.UUID {
	a.t.Helper()
	m := authority.Move{Change: rail.NewUUID(), Scope: a.scope, To: "rail", Deadline: 30 * time.Minute, Budget: time.Minute}
	_, err := a.c.Plan(a.t.Context(), m)
	a.must(err)
	return m.Change
}

// shadowed compares the two sides, which agree.
func (a *adoption) shadowed(id rail.UUID) {
	a.t.Helper()
	_, _, err := a.c.Shadow(a.t.Context(), id, authority.ShadowOptions{Build: func(context.Context, rail.Key) (authority.ShadowFrame, error) {
		return authority.ShadowFrame{JSON: []byte(`{"n":1}`), Digest: a.digest(), SchemaVersion: "1", Builder: "rail"}, nil
	}})
	a.must(err)
}

// heads is the old side's account; revision is what it says of its one Brief.
func (a *adoption) heads(revision int64) authority.Heads {
	digest := a.digest()
	return func(context.Context, string, int64) ([]authority.Head, error) {
		return []authority.Head{{Key: a.key, Revision: revision, Digest: digest[:]}}, nil
	}
}

func (a *adoption) crossed() rail.UUID {
	a.t.Helper()
	id := a.planned()
	a.shadowed(id)
	ch, err := a.c.Cross(a.t.Context(), id, a.heads(7))
	if err != nil || ch.Outcome != "advanced" {
		a.t.Fatalf("%+v, %v", ch, err)
	}
	return id
}

// held stops the widening of a scope, or of every one, and says by which hold.
func (a *adoption) held(scope, watch string) int64 {
	a.t.Helper()
	return value[int64](a.rig, `SELECT ops.raise_hold(nullif($1, ''), $2, '{"value": 12}')`, scope, watch)
}

// admitted holds a transaction of the old writer open until the test ends it.
func (a *adoption) admitted(application string) (end func()) {
	a.t.Helper()
	tx, err := a.Pool.Begin(a.t.Context())
	a.must(err)
	for _, sql := range []string{`SELECT set_config('application_name', $1, true)`, `SELECT ops.admit($1, 'old', NULL)`} {
		arg := application
		if strings.Contains(sql, "admit") {
			arg = a.scope
		}
		_, err = tx.Exec(a.t.Context(), sql, arg)
		a.must(err)
	}
	return func() {
		a.t.Helper()
		if err := tx.Rollback(a.t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			a.t.Fatal(err)
		}
	}
}

func pageOf(scope string) string { return "/scope?of=" + url.QueryEscape(scope) }

func changeOf(id rail.UUID) string { return "/change?of=" + id.String() }

func TestWithoutAFenceTheRailWritesEverything(t *testing.T) {
	r := newRig(t, nil)
	a := r.get("/authority")
	wants(t, a, http.StatusOK, "The rail writes everything", "No write fence is configured", "None was ever planned.")
	loyal(t, "/authority", a)
	if strings.Contains(a.body, `class="buckets"`) || !strings.Contains(a.body, `<a href="authority" aria-current="page">Authority</a>`) {
		t.Error("buckets are drawn, or the page is not among the tabs")
	}
	wants(t, r.get(pageOf("matters/bucket-07")), http.StatusOK, "The rail writes it", "railctl authority configure --writer NAME matters/bucket-07")
	wants(t, r.get(changeOf(rail.NewUUID())), http.StatusNotFound, "the ledger has no such change")
	for target, want := range map[string]string{
		"/change?of=x": "of=:", "/change": "of=:", "/scope": "is not a scope", "/scope?of=matters/bucket-64": "is not a scope", "/authority?of=x": "does not know",
		"/scope?of=" + url.QueryEscape(hostile()[:200]): "is not a scope",
	} {
		bad := r.get(target)
		wants(t, bad, http.StatusBadRequest, want)
		tame(t, target, bad)
	}
	wants(t, r.post("/change", "of", rail.NewUUID().String()), http.StatusMethodNotAllowed)
}

func TestBucketsShowTheirWriters(t *testing.T) {
	a := adopting(newRig(t, nil))
	wants(t, a.get("/authority"), http.StatusOK, "0 of 64 buckets are written by the rail", "old writes 64", "http://old.example/briefs", "Every scope as a table (64)")
	id := a.crossed()
	page := a.get("/authority")
	wants(t, page, http.StatusOK, "1 of 64 buckets are written by the rail", "old writes 63", "rail writes 1", "epoch 2", "↩ in 13 days", "old → rail forward", "Nothing ever was.")
	for _, part := range []string{`<li class="rail"><a href="scope?of=matters%2fbucket-` + a.scope[len(a.scope)-2:], `href="change?of=` + id.String()} {
		if !strings.Contains(page.body, part) {
			t.Errorf("no %s", part)
		}
	}
	loyal(t, "/authority", page)
	wants(t, a.get(pageOf(a.scope)), http.StatusOK, "writer rail", "epoch 2", "in 13 days", "None: wait.", "railctl authority rollback "+id.String())
	hold := a.held(a.scope, "late_facts")
	wants(t, a.get("/authority"), http.StatusOK, fmt.Sprintf("Hold %d: late_facts", hold), "value", fmt.Sprintf("railctl authority release %d --class CLASS", hold), "held")
	a.exec(`ALTER TABLE public.legacy_briefs DISABLE TRIGGER write_fence`)
	wants(t, a.get("/authority"), http.StatusOK, "A table has lost its fence: legacy_briefs")
}

func TestAChangeTellsItsPhases(t *testing.T) {
	a := adopting(newRig(t, nil))
	id := a.crossed()
	page := a.get(changeOf(id))
	wants(t, page, http.StatusOK, "advanced", "old epoch 1 → rail epoch 2", "ended by ada", "because the rail is adopted", "the way back ends",
		"the final sequence is 7", "open to the new writer, under epoch 2", "after the closing", "completed not yet", "retired not yet",
		"budget 1 min 00 s", "grace for those who are in 100.0 ms", ": passed", "1 matter in", "Nobody was.", "old_side_ready: not met no restore drill is on record",
		"only_writer: met", "none – 1", "Nothing is moved from here")
	for _, part := range []string{`<li class="now" aria-current="step"><b>advanced</b>`, `<rect class="part drain"`, `<rect class="part open"`, `<rect class="part predicted"`, `<desc id="pause-desc">drain `} {
		if !strings.Contains(page.body, part) {
			t.Errorf("no %s", part)
		}
	}
	if strings.Contains(page.body, "aborted") {
		t.Error("a change that advanced speaks of its abort")
	}
	loyal(t, "change", page)
}

// What was in the way, and what must not cross, are told with the rows.
func TestAChangeThatEndedAbortedSaysWhy(t *testing.T) {
	a := adopting(newRig(t, nil))
	id := a.planned()
	a.shadowed(id)
	end := a.admitted("nightly export")
	defer end()
	_, err := a.c.Close(t.Context(), id)
	a.must(err)
	_, err = a.c.Drain(t.Context(), id)
	a.must(err)
	page := a.get(changeOf(id))
	wants(t, page, http.StatusOK, "drained", "nightly export", "transaction", "it lasts", "taken back, unless it is open by then", "railctl authority cross "+id.String(), "None was made")
	if !strings.Contains(page.body, `<rect class="part live"`) {
		t.Error("a pause that lasts is not drawn")
	}
	wants(t, a.get("/authority"), http.StatusOK, "1 scope is closed just now", "nightly export transaction 1 0")
	end()
	if ch, err := a.c.Cross(t.Context(), id, a.heads(8)); !errors.Is(err, authority.ErrBlocked) {
		t.Fatalf("%+v, %v", ch, err)
	}
	page = a.get(changeOf(id))
	wants(t, page, http.StatusOK, "aborted", ": it must not cross", "digests", "revision 7 here, 8 there", "has 1 findings", "nightly export",
		"the scope is its writer", "railctl authority plan "+a.scope)
	if !strings.Contains(page.body, `href="matter?of=`+strings.ReplaceAll(a.key.String(), "/", "%2f")+`"`) || !strings.Contains(page.body, `<li class="bad" aria-current="step"><b>aborted</b>`) {
		t.Error("the finding does not lead to its matter, or the end is not the current step")
	}
	if strings.Contains(page.body, "<b>advanced</b>") {
		t.Error("a phase is shown that it never reached")
	}
	other := a.planned()
	wants(t, a.get(changeOf(id)), http.StatusOK, "The scope has gone on")
	wants(t, a.get(changeOf(other)), http.StatusOK, "nobody had to wait yet", "railctl authority shadow "+other.String())
}

func TestTheNextSafeStepKnowsOfHolds(t *testing.T) {
	a := adopting(newRig(t, nil))
	step := func(target, command string, more ...string) {
		t.Helper()
		page := a.get(target)
		wants(t, page, http.StatusOK, more...)
		if want := `<code class="verb"><bdi>` + command + `</bdi></code>`; !strings.Contains(page.body, want) {
			t.Errorf("%s: no %s in\n%s", target, want, words(page))
		}
	}
	step(pageOf(a.scope), "railctl authority plan "+a.scope)
	id := a.planned()
	step(changeOf(id), "railctl authority shadow "+id.String())
	a.shadowed(id)
	step(changeOf(id), "railctl authority cross "+id.String())
	hold := a.held("", "retired_paths")
	step(changeOf(id), fmt.Sprintf("railctl authority release %d --class CLASS", hold), "then: railctl authority cross "+id.String(), "every scope")
	_, err := a.c.Release(t.Context(), hold, "routing")
	a.must(err)
	_, err = a.c.Cross(t.Context(), id, a.heads(7))
	a.must(err)
	a.must(a.c.Exercised(t.Context(), a.scope, "restore"))
	wants(t, a.get(changeOf(id)), http.StatusOK, "old_side_ready: met", "None: wait.")
	back := rail.NewUUID()
	_, _, err = a.c.Rollback(t.Context(), id, authority.Move{Change: back, Deadline: 30 * time.Minute, Budget: time.Minute})
	a.must(err)
	a.held("", "late_facts")
	step(changeOf(back), "railctl authority shadow "+back.String(), "rollback", "takes back")
	wants(t, a.get(pageOf(a.scope)), http.StatusOK, "way back in 13 days")
	_, _, err = a.c.Shadow(t.Context(), back, authority.ShadowOptions{})
	a.must(err)
	step(changeOf(back), "railctl authority cross "+back.String()) // no hold keeps anybody from going back
}

func TestHostileNamesOfAuthorityAreHarmless(t *testing.T) {
	a := adopting(newRig(t, nil))
	id := a.planned()
	a.shadowed(id)
	end := a.admitted("<script>alert(1)</script>\u202e")
	defer end()
	a.c.Actor = authority.Actor{Name: hostile(), Reason: hostile()}
	for _, do := range []func(context.Context, rail.UUID) (authority.Change, error){a.c.Close, a.c.Drain, a.c.Abort} {
		_, err := do(t.Context(), id)
		a.must(err)
	}
	a.force(`UPDATE ops.writers SET endpoint = left('http://' || $1, 500), database_roles = database_roles || $1::text, importer_role = $1 WHERE kind = 'external'`, hostile())
	a.force(`UPDATE ops.write_fence_changes SET cohort = left($1, 100), shadow = $2::jsonb, plan = $3::jsonb`, hostile(),
		jsonOf([]authority.ShadowClass{{Difference: hostile(), Rule: hostile(), Matters: 1}}), jsonOf(map[string]any{"relations": []authority.Relation{{Name: hostile(), Class: hostile()}}}))
	a.force(`UPDATE ops.write_fence_changes SET blockers = blockers || $1::jsonb`, jsonOf([]authority.Blocker{{Kind: hostile(), Lock: hostile(), GID: hostile(), Role: hostile(), State: hostile(), Since: hostile()}}))
	a.force(`INSERT INTO ops.write_fence_reports (change_id, sealed_at, final_sequence, passed, matters, digest, findings, took)
	  VALUES ($1, now(), 1, false, 1, sha256(''), $2::jsonb, '1 second')`, id, jsonOf([]authority.Finding{{Check: hostile(), Firm: hostile(), Matter: hostile(), Detail: hostile()}}))
	a.exec(`SELECT ops.raise_hold(NULL, $1, $2::jsonb)`, hostile(), jsonOf(map[string]string{"said": hostile()}))
	quoted := `public."<script>alert(1)</script>"`
	a.exec(`CREATE TABLE ` + quoted + ` (matter_id uuid PRIMARY KEY)`)
	a.must(a.c.Guard(t.Context(), authority.Guard{Table: quoted, Key: "matter_id", Writer: "old"}))
	a.exec(`ALTER TABLE ` + quoted + ` DISABLE TRIGGER write_fence`)
	for _, target := range []string{"/authority", pageOf(a.scope), changeOf(id)} {
		page := a.get(target)
		wants(t, page, http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt;")
		tame(t, target, page)
		loyal(t, target, page)
	}
	a.force(`UPDATE ops.write_fence_changes SET shadow = '"text"', plan = '[]'`)
	wants(t, a.get(changeOf(id)), http.StatusOK, "The stored comparison cannot be read.", "The stored plan cannot be read.")
}

func TestWatchersAreToldOfAChange(t *testing.T) {
	r, _ := running(t, 20*time.Millisecond)
	a := adopting(r)
	id := a.planned()
	all, one := r.listen("authority"), r.listen("change%3Fof%3D"+id.String())
	before, of := hear(t, all, ""), hear(t, one, "")
	a.shadowed(id)
	before, of = hear(t, all, before), hear(t, one, of)
	_, err := a.c.Abort(t.Context(), id)
	a.must(err)
	hear(t, all, before)
	hear(t, one, of)
}

// Those who only look see everything.
func TestRolesSeeAuthority(t *testing.T) {
	r := newRig(t, nil)
	a := adopting(r)
	id := a.crossed()
	r.GrantRoles(t)
	for _, role := range []string{"rail_operator", "rail_readonly"} {
		as := *a
		as.rig = serveOn(t, r.DB, func(o *console.Options) { o.DB = r.PoolAs(t, role) })
		for _, target := range []string{"/authority", pageOf(a.scope)} {
			wants(t, as.get(target), http.StatusOK, "epoch 2")
		}
		wants(t, as.get(changeOf(id)), http.StatusOK, ": passed", "only_writer: met")
	}
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null" // unreachable: plain values
	}
	return string(text)
}
