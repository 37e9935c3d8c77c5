package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// holding is a build service that keeps chosen calls back.
type holding struct {
	mu   sync.Mutex
	kept map[rail.Key]*held
}

func (h *holding) script(ctx context.Context, w http.ResponseWriter, c call) {
	h.mu.Lock()
	kept := h.kept[c.Key]
	h.mu.Unlock()
	if kept != nil {
		kept.script(ctx, w, c)
		return
	}
	answer(w, c)
}

// keep keeps the calls of a matter that come from now on until they are released.
func (h *holding) keep(k rail.Key) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept[k] = newHeld()
	return h.kept[k]
}

// builds waits until the service has been called so often for a matter.
func (s *service) builds(t *testing.T, k rail.Key, n int) {
	t.Helper()
	eventually(t, 40*time.Second, "a build of the matter", func() bool {
		got := 0
		for _, c := range s.seen() {
			if c.Key == k {
				got++
			}
		}
		return got >= n
	})
}

// operator calls railctl with the configuration of the workers.
type operator struct {
	binary string
	env    []string
}

func newOperator(t *testing.T, s settings, aws []string) operator {
	return operator{buildOther(t, "railctl"), append(append(s.environ(), "USER=ada"), aws...)}
}

func (o operator) ctl(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, o.binary, args...)
	cmd.Env, cmd.Stderr = o.env, &said
	b, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatalf("railctl: %v", err)
	}
	t.Logf("railctl %s: exit %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), b, said.String())
	return cmd.ProcessState.ExitCode(), string(b)
}

func (o operator) ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out := o.ctl(t, args...)
	if code != 0 {
		t.Fatalf("railctl %v: exit %d", args, code)
	}
	return out
}

// rewound is what restore-check says, as far as it is looked at here.
type rewound struct {
	Changed bool      `json:"ledger_changed"`
	Ends    time.Time `json:"ends_at"`
	Since   time.Time `json:"bump_since"`
	Live    int       `json:"live_claims"`
	Next    struct {
		Due     bool
		Command string
	}
}

func (o operator) restoreCheck(t *testing.T) (code int, r rewound) {
	t.Helper()
	code, out := o.ctl(t, "restore-check", "-o", "json")
	e := struct{ Data *rewound }{&r}
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	return code, r
}

var (
	fenced    = regexp.MustCompile("(?s)```sh\n(.*?)```")
	shellWord = regexp.MustCompile(`'[^']*'|[^\s'#]+`)
)

// runbook are the commands of the blocks of a section, without comments.
func runbook(t *testing.T, section string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, block := range fenced.FindAllStringSubmatch(rest, -1) {
		for line := range strings.Lines(block[1]) {
			typed, _, _ := strings.Cut(strings.TrimSpace(line), " #")
			words := shellWord.FindAllString(typed, -1)
			for i := range words {
				words[i] = strings.Trim(words[i], "'")
			}
			if len(words) > 1 && words[0] == "railctl" {
				all = append(all, words[1:])
			}
		}
	}
	return all
}

// follow does what the runbook says after a restore. What only looks may find that
// something is wrong; what changes something must work.
func (o operator) follow(t *testing.T, since time.Time) {
	t.Helper()
	steps := runbook(t, "After a restore or a lossy failover")
	if len(steps) < 12 {
		t.Fatalf("only %d commands are seen: %q", len(steps), steps)
	}
	for _, words := range steps {
		typed := strings.ReplaceAll(strings.Join(words, "\x00"), "2026-01-31T02:00:00Z", since.UTC().Format(time.RFC3339))
		if !strings.Contains(typed, "\x00--reason\x00") {
			o.ctl(t, strings.Split(typed, "\x00")...)
			continue
		}
		matters := []string{""}
		if strings.Contains(typed, "SCOPE") {
			continue // of each scope that was closed: this rail has no fence
		}
		if strings.Contains(typed, "FIRM/MATTER") {
			_, out := o.ctl(t, "restore-check", "-o", "name")
			matters = strings.Fields(out)
		}
		for _, m := range matters {
			o.ok(t, append(strings.Split(strings.ReplaceAll(typed, "FIRM/MATTER", m), "\x00"), "--yes")...)
		}
	}
}

// diagnosis is one line of what the doctor says.
func diagnosis(t *testing.T, db *pgtest.DB, check string) audit.State {
	t.Helper()
	found, err := audit.Doctor(t.Context(), db.Pool, audit.DoctorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if d.Check == check {
			return d.State
		}
	}
	return ""
}

// assertHealed holds a ledger that was rewound against every invariant but one: what is
// judged again is built again, so there are more landings than facts.
func assertHealed(t *testing.T, db *pgtest.DB) {
	t.Helper()
	for what, sql := range soundness() {
		if n := one[int](t, db.Pool, sql); n != 0 && what != "more landings of a matter than facts" {
			t.Errorf("%s: %d", what, n)
		}
	}
	db.CheckLedger(t)
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status <> 'idle'`); n != 0 {
		t.Errorf("%d matters are not current", n)
	}
	if state := diagnosis(t, db, "ledger_identity"); state != audit.OK {
		t.Errorf("ledger_identity is %s", state)
	}
}

// The database goes back to a backup while a relay and two workers live: one of them
// builds what nobody asked for any more, and nudges in the queue are younger than the
// outbox. Nothing stale lands, what the queue knows of what was lost is told, and the
// runbook brings every matter back.
func TestRewindUnderLiveDaemons(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	db := pgtest.NewOn(t, cluster, pgtest.Ops())
	builds := &holding{kept: map[rail.Key]*held{}}
	r := newRailOn(t, db, serve(t, builds.script), awsfake.Layout{Receives: 2, Visibility: 2 * time.Second})
	// unrenewed, so that a build finds out by its landing and not before
	r.worker = r.worker.with(settings{"LEASE_RENEW": "off", "BUILDER_TIMEOUT": "60s", "LEASE_DURATION": "91s"})
	ops := newOperator(t, r.worker, r.aws)
	r.startRelay(t)
	workers := []*process{r.startWorker(t), r.startWorker(t)}
	for _, w := range workers {
		w.awaitStart(t)
	}

	old := newKeys(2, 4)
	held, zombie := old[0], old[1]
	tell(t, db.Pool, uploaded, old...)
	awaitQuiet(t, db.Pool, 60*time.Second)
	release := builds.keep(held)
	tell(t, db.Pool, uploaded, held)
	r.builder.builds(t, held, 2)
	if err := cluster.Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	ended := one[time.Time](t, db.Pool, `SELECT clock_timestamp()`)
	release.release() // its landing is lost; the claim lives on in the backup
	fresh := newKeys(1, 2)
	tell(t, db.Pool, uploaded, append(fresh, old[2])...)
	awaitQuiet(t, db.Pool, 60*time.Second)
	stale := builds.keep(zombie)
	tell(t, db.Pool, uploaded, zombie)
	r.builder.builds(t, zombie, 2)
	for _, w := range workers {
		w.signal(syscall.SIGSTOP)
	}
	unheard := newKeys(1, 3)
	tell(t, db.Pool, uploaded, unheard...)
	r.awaitPublished(t)
	future := one[[]rail.UUID](t, db.Pool, `SELECT array_agg(run_id) FROM ops.matter_frame_runs WHERE started_at > $1`, ended)

	if err := cluster.Restore(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	db.Pool.Reset()
	for _, w := range workers {
		w.signal(syscall.SIGCONT)
	}
	assertNothingStaleLands(t, r, builds, stale, zombie)
	assertRewindIsTold(t, r, ops, ended, len(unheard))
	_, said := ops.restoreCheck(t)
	ops.follow(t, said.Since)
	awaitQuiet(t, db.Pool, 90*time.Second)
	assertHealed(t, db)
	assertFrames(t, db, append(old, unheard...), future)
	eventually(t, 40*time.Second, "the alarm ends with the epoch", func() bool {
		return workers[0].metric("rail_ledger_changed") == 0 && workers[0].metric("rail_ledger_epoch") == 2
	})
	if code, _ := ops.restoreCheck(t); code != 0 {
		t.Errorf("restore-check: exit %d at the end", code)
	}
}

// assertFrames: each matter has one, and none is of a run that the rewind took back.
func assertFrames(t *testing.T, db *pgtest.DB, keys []rail.Key, future []rail.UUID) {
	t.Helper()
	for _, k := range keys {
		if one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frames WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter) == 0 {
			t.Errorf("matter %s has no frame", k)
		}
	}
	if len(future) == 0 {
		t.Error("no run was taken back")
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frames WHERE run_id = ANY ($1)`, future); n != 0 {
		t.Errorf("%d frames are of runs that the rewind took back", n)
	}
}

// assertNothingStaleLands has a fact told again of a matter whose build from before the
// rewind is still under way. The new claim takes the old one's number, and the run id
// tells them apart.
func assertNothingStaleLands(t *testing.T, r *wholeRail, builds *holding, stale *held, zombie rail.Key) {
	t.Helper()
	again := builds.keep(zombie)
	tell(t, r.db.Pool, uploaded, zombie)
	r.builder.builds(t, zombie, 3)
	var calls []call
	for _, c := range r.builder.seen() {
		if c.Key == zombie {
			calls = append(calls, c)
		}
	}
	if calls[1].Generation != calls[2].Generation || calls[1].Run == calls[2].Run {
		t.Errorf("the zombie and its successor: %+v", calls[1:])
	}
	stale.release()
	eventually(t, 20*time.Second, "the landing from before the rewind is refused", func() bool {
		return r.sum(`rail_fence_rejections_total{write="land"}`) >= 1
	})
	if status := statusOf(t, r.db.Pool, zombie); status != "running" {
		t.Errorf("the matter is %s while its new build runs", status)
	}
	again.release()
	awaitStatus(t, r.db.Pool, zombie, "idle")
}

// sum adds a series up over the workers.
func (r *wholeRail) sum(series string) (n float64) {
	for _, w := range r.workers {
		n += max(0, w.metric(series))
	}
	return n
}

// assertRewindIsTold: metrics, doctor and restore-check say what happened, and every
// nudge whose fact is gone is counted and left for the dead letters.
func assertRewindIsTold(t *testing.T, r *wholeRail, ops operator, ended time.Time, unheard int) {
	t.Helper()
	eventually(t, 40*time.Second, "nudges of lost facts are dead letters", func() bool {
		return r.letters(t)["unknown"] >= unheard
	})
	if n := r.sum(`rail_nudges_total{outcome="unknown"}`); n < float64(unheard) {
		t.Errorf("%v nudges were counted unknown, want %d and more", n, unheard)
	}
	eventually(t, 40*time.Second, "the alarm of the ledger's identity", func() bool {
		return r.sum("rail_ledger_changed") == float64(len(r.workers))
	})
	if n := r.workers[0].metric("rail_ledger_epoch"); n != 1 {
		t.Errorf("epoch %v before anybody raised it", n)
	}
	if state := diagnosis(t, r.db, "ledger_identity"); state != audit.Fail {
		t.Errorf("ledger_identity is %s", state)
	}
	code, said := ops.restoreCheck(t)
	if code != 6 || !said.Changed || !said.Next.Due || said.Live != 1 || !strings.HasPrefix(said.Next.Command, "railctl epoch bump --since ") {
		t.Errorf("restore-check: exit %d, %+v", code, said)
	}
	if said.Ends.After(ended) || !said.Since.Before(said.Ends) {
		t.Errorf("the ledger ends at %s, the backup at %s, the bump is since %s", said.Ends, ended, said.Since)
	}
}
