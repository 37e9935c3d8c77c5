package browser

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

var shots = flag.String("console-shots", "", "write pictures of the console into this `folder`")

const token = "the token of this test"

// scene is a ledger in which something is wrong, and the console that shows it.
type scene struct {
	*pgtest.DB
	*testing.T
	home                           string
	sick, zombie, running, resting rail.Key
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{DB: pgtest.New(t), T: t}
	s.sick = s.parked("unreadable: page 3 of “Exhibit 12.pdf” has no text and no picture", 5*time.Hour)
	s.parked("unreadable: the file is encrypted, and nobody gave its password", 49*time.Hour)
	s.parked("too_large: the record has 412 MB, at most 64 MB are read", 28*time.Minute)
	s.zombie = s.late()
	s.running, s.resting = s.key(), s.key()
	s.demand(s.running)
	s.claim(s.running, "worker-7f9c")
	s.demand(s.resting)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.home = serve(t, []string{"RAIL_DATABASE_URL=" + s.DSN}, "console", "--token-file", file, "--open-less")
	return s
}

func (s *scene) key() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

func (s *scene) demand(k rail.Key) {
	s.Helper()
	if _, err := jobs.Demand(s.Context(), s.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard}}, time.Minute); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) claim(k rail.Key, worker string) runs.Claimed {
	s.Helper()
	got, err := runs.ClaimKey(s.Context(), s.Pool, k, rail.Standard, runs.ClaimOptions{Worker: worker, Builder: "http", Lease: 20 * time.Minute})
	if err != nil || len(got) != 1 {
		s.Fatalf("claim: %v, %v", got, err)
	}
	return got[0]
}

func (s *scene) land(c runs.Claimed) error {
	const content = `{"matter":"of nobody"}`
	checked, err := frames.Check([]byte(content), 1<<20)
	if err != nil {
		s.Fatal(err)
	}
	_, err = runs.Land(s.Context(), s.Pool, runs.Landing{
		Claim: c.Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: []byte(content), SchemaVersion: "brief/1", BuilderVersion: "brief-builder/1.4"},
	})
	return err
}

func (s *scene) exec(sql string, args ...any) {
	s.Helper()
	tx, err := s.Pool.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, q := range []func() error{
		func() error {
			_, err := tx.Exec(s.Context(), `SET LOCAL session_replication_role = replica`)
			return err
		},
		func() error { _, err := tx.Exec(s.Context(), sql, args...); return err },
		func() error { return tx.Commit(s.Context()) },
	} {
		if err := q(); err != nil {
			s.Fatal(err)
		}
	}
}

// parked is a matter that a fault of its own has parked, some time ago.
func (s *scene) parked(why string, ago time.Duration) rail.Key {
	s.Helper()
	k := s.key()
	s.demand(k)
	c := s.claim(k, "worker-7f9c")
	kind, text, _ := strings.Cut(why, ": ")
	if _, err := runs.Fail(s.Context(), s.Pool, c.Claim, runs.Failure{Kind: kind, Text: text, Permanent: true}, runs.Retry{MaxAttempts: 3}); err != nil {
		s.Fatal(err)
	}
	s.aged(k, ago)
	return k
}

// aged moves what happened to a matter so far into the past.
func (s *scene) aged(k rail.Key, ago time.Duration) {
	s.Helper()
	s.exec(`UPDATE ops.matter_frame_jobs SET owed_since = owed_since - $2::interval, queued_at = queued_at - $2::interval,
	  claimed_at = claimed_at - $2::interval, lease_expires_at = lease_expires_at - $2::interval WHERE matter_id = $1`, k.Matter, ago)
	s.exec(`UPDATE ops.matter_frame_runs SET started_at = started_at - $2::interval, finished_at = finished_at - $2::interval,
	  late_write_at = late_write_at - $2::interval WHERE matter_id = $1`, k.Matter, ago)
	s.exec(`WITH f AS (UPDATE ops.domain_event_outbox SET recorded_at = recorded_at - $2::interval WHERE matter_id = $1 RETURNING event_id)
	  UPDATE ops.trigger_receipts r SET decided_at = decided_at - $2::interval FROM f WHERE r.event_id = f.event_id`, k.Matter, ago)
}

// late is a matter whose first worker fell silent, and woke when another had landed.
func (s *scene) late() rail.Key {
	s.Helper()
	k := s.key()
	s.exec(`INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, k.Firm, k.Matter)
	s.demand(k)
	s.exec(`WITH r AS (INSERT INTO ops.trigger_receipts (event_id, verdict, requested_generation)
	    SELECT event_id, 'demanded', 1 FROM ops.domain_event_outbox WHERE matter_id = $1 RETURNING event_id)
	  DELETE FROM ops.outbox_undecided u USING r WHERE u.event_id = r.event_id`, k.Matter)
	first := s.claim(k, "worker-7f9c")
	s.aged(k, 95*time.Second)
	s.exec(`UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() WHERE matter_id = $1`, k.Matter)
	second := s.claim(k, "worker-b201")
	s.aged(k, 24*time.Second)
	if err := s.land(second); err != nil {
		s.Fatal(err)
	}
	s.exec(`UPDATE ops.matter_frames SET built_at = built_at - interval '11 seconds' WHERE matter_id = $1`, k.Matter)
	s.exec(`UPDATE ops.matter_frame_runs SET finished_at = finished_at - interval '11 seconds' WHERE matter_id = $1 AND outcome = 'landed'`, k.Matter)
	if err := s.land(first); err == nil {
		s.Fatal("the zombie landed")
	}
	if err := runs.NoteRefused(s.Context(), s.Pool, first.Token.Run, true); err != nil {
		s.Fatal(err)
	}
	return k
}

// at is the address of a matter below the console's.
func at(k rail.Key) string { return "matter?of=" + url.QueryEscape(k.String()) }

// login logs in as ada would.
func (b *tab) login() {
	b.Helper()
	b.open("login")
	b.do(
		chromedp.SendKeys(chromedp.CSS(`input[name="name"]`), "ada"),
		chromedp.SendKeys(chromedp.CSS(`input[name="token"]`), token),
	)
	b.click("login")
	b.shows("header", "as ada")
}

func TestConsole(t *testing.T) {
	browser := find(t)
	s := newScene(t)
	t.Run("found, understood, unparked and healed", func(t *testing.T) { healed(s, newTab(t, browser, s.home, 1100)) })
	alike(t, browser, s.home, s, map[string]func(*scene, *tab){
		"a refused zombie is drawn":  zombieDrawn,
		"many at once":               manyAtOnce,
		"by keyboard":                consoleByKeyboard,
		"without the script":         consoleWithoutScript,
		"what is typed is not taken": typingIsKept,
	})
	t.Run("on a narrow screen", func(t *testing.T) { consoleNarrow(s, newTab(t, browser, s.home, 400)) })
}

// healed is the story at three in the morning.
func healed(s *scene, b *tab) {
	b.picture("parked", "parked")
	b.open("")
	b.shows("#stale", "Exhibit 12.pdf")
	b.shows("#promise", "5 matters owe a build")
	// in one step: the part that holds it may be put anew at any time
	b.until("the link is followed", fmt.Sprintf(`(document.querySelector('[data-key="m-%s"]')?.click(), !!document.querySelector("#row"))`, s.sick))
	b.shows("#row .stamp", "PARKED")
	b.shows("#why", "new demand gives it one more attempt, unpark starts afresh")
	b.until("nothing can be done before a login", `!document.querySelector('form[action="matter"]')`)
	b.login()
	b.picture("stale", at(s.sick))
	b.open(at(s.sick))
	b.do(chromedp.SendKeys(chromedp.CSS(`#acts input[name="why"]`), "the exhibit was scanned again"))
	b.click("act-unpark")
	b.shows(".said", "Unparked: the exhibit was scanned again.")
	b.shows("#row .stamp", "QUEUED")
	unmoved := b.marked()
	c := s.claim(s.sick, "worker-b201")
	b.shows("#row .stamp", "RUNNING")
	if err := s.land(c); err != nil {
		s.Fatal(err)
	}
	b.shows("#row .stamp", "IDLE")
	b.shows("#why", "the Brief is current: nothing is owed")
	b.until("the act is among the events", `document.querySelector("#timeline tr.act")?.textContent.includes("the exhibit was scanned again")`)
	unmoved()
	b.open("")
	b.shows("#promise", "4 matters owe a build")
}

func zombieDrawn(s *scene, b *tab) {
	b.open(at(s.zombie))
	b.until("the refusal is drawn", `!!document.querySelector("svg .mark.refusal")`)
	b.shows("#runs", "Late write refused")
	b.picture("timeline", at(s.zombie))
}

func manyAtOnce(s *scene, b *tab) {
	b.login()
	b.open("parked?reason=encrypted")
	b.shows("#list", "1 matter is parked that the filter names")
	b.click("preview")
	b.shows("#preview", "Unpark 1 matter?")
	b.do(chromedp.SendKeys(chromedp.CSS(`#preview input[name="why"]`), "the password came"))
	b.click("confirm")
	b.shows(".said", "Unparked 1 matter: the password came.")
	b.shows("#list", "412 MB")
}

func consoleByKeyboard(s *scene, b *tab) {
	b.login()
	b.open(at(s.resting))
	b.tabTo(`input[name="why"]`)
	b.do(chromedp.SendKeys(chromedp.CSS(`#acts input[name="why"]`), "by hand"))
	b.tabTo(`[data-key="act-park"]`)
	b.press(kb.Enter)
	b.shows(".said", "Parked: by hand.")
	b.shows("#row .stamp", "PARKED")
}

func consoleWithoutScript(s *scene, b *tab) {
	b.unscripted()
	b.open(at(s.running))
	b.shows("#row .stamp", "RUNNING")
	b.click("refresh")
	b.shows("#row .stamp", "RUNNING")
	b.open("runs")
	b.shows("#list", "worker-7f9c")
}

// typingIsKept: a part in which somebody types is not replaced under the hands.
func typingIsKept(s *scene, b *tab) {
	b.login()
	k := s.key()
	s.demand(k)
	b.open(at(k))
	b.do(chromedp.SendKeys(chromedp.CSS(`#acts input[name="why"]`), "half a reas"))
	s.claim(k, "worker-b201")
	b.shows("#row .stamp", "RUNNING")
	b.until("the words stay", `document.querySelector('#acts input[name="why"]').value === "half a reas"`)
}

func consoleNarrow(s *scene, b *tab) {
	b.login()
	for _, place := range []string{"", at(s.zombie), at(s.sick), "runs", "parked", "parked?preview=1", "dispatch?verb=pause&scope=all", "outbox", "login"} {
		b.fits(place)
	}
}

// picture writes what a page looks like, if it is wanted.
func (b *tab) picture(name, place string) {
	b.Helper()
	b.open(place)
	if *shots == "" {
		return
	}
	b.shoot(1000, 760, filepath.Join(*shots, fmt.Sprintf("console-%s.png", name)))
	b.do(chromedp.EmulateViewport(1100, 900))
}
