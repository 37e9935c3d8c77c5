package main

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// wholeRail is outbox, relays, a fake bus with its queue, workers and a build
// service: all that a fact passes. Relays and workers are processes.
type wholeRail struct {
	*awsfake.Server

	db            *pgtest.DB
	builder       *service
	places        awsfake.Places
	aws           []string // environment
	relayBinary   string
	relay, worker settings
	workers       []*process // every one that ever ran
}

func newRail(t *testing.T, builder *service, layout awsfake.Layout) *wholeRail {
	t.Helper()
	return newRailOn(t, pgtest.New(t), builder, layout)
}

func newRailOn(t *testing.T, db *pgtest.DB, builder *service, layout awsfake.Layout) *wholeRail {
	t.Helper()
	r := &wholeRail{Server: awsfake.New(awsfake.Options{}), db: db, builder: builder, relayBinary: buildOther(t, "outbox-relay")}
	url, stop, err := r.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	r.places = r.Provision(url, layout)
	r.aws = []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=fake", "AWS_SECRET_ACCESS_KEY=fake", "AWS_ENDPOINT_URL=" + url}
	r.worker = quick(r.db.DSN, builder.URL).with(settings{
		"TRIGGER_SOURCE": "sqs", "TRIGGER_QUEUE_URL": r.places.Queue, "TRIGGER_GRACE": "2s", "TRIGGER_POLL_WAIT": "1s",
		"RETRY_MAX_ATTEMPTS": "100", "FRAMES_KEEP": "10000", "DATABASE_MAX_CONNS": "7",
	})
	r.relay = settings{
		"DATABASE_URL": r.db.DSN, "DATABASE_MAX_CONNS": "4", "ADMIN_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json",
		"RELAY_SINKS": "[eventbridge]", "RELAY_EVENT_BUS": r.places.Bus, "RELAY_LEASE": "2s", "RELAY_MAX_IDLE": "200ms",
		"RELAY_TIMEOUT": "1s", "RELAY_BACKOFF": "50ms", "RELAY_BACKOFF_MAX": "500ms",
	}
	return r
}

// buildOther builds another program, with the race detector where this test has it.
func buildOther(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if raced() {
		args = append(args, "-race")
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, "briefrail/cmd/"+name)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return binary
}

func raced() bool {
	info, ok := debug.ReadBuildInfo()
	for i := 0; ok && i < len(info.Settings); i++ {
		if info.Settings[i].Key == "-race" {
			return info.Settings[i].Value == "true"
		}
	}
	return false
}

func (r *wholeRail) startRelay(t *testing.T) *process {
	t.Helper()
	return launchIn(t, r.relayBinary, append(r.relay.environ(), r.aws...), "run")
}

func (r *wholeRail) startWorker(t *testing.T) *process {
	t.Helper()
	p := launchIn(t, self(t), append(r.worker.environ(), r.aws...), "run")
	r.workers = append(r.workers, p)
	return p
}

// killer keeps two relays and two workers up, and kills one after the other in a
// random order at random times. It returns the workers that live at the end.
func (r *wholeRail) killer(t *testing.T, until <-chan struct{}, every time.Duration) (kills int, living []*process) {
	start := []func(*testing.T) *process{r.startRelay, r.startRelay, r.startWorker, r.startWorker}
	fleet := make([]*process, len(start))
	for i := range fleet {
		fleet[i] = start[i](t)
	}
	order := rand.Perm(len(fleet))
	for {
		select {
		case <-until:
			return kills, fleet[2:]
		case <-time.After(every/2 + rand.N(every)):
			i := order[kills%len(order)]
			fleet[i].kill()
			fleet[i] = start[i](t)
			kills++
		}
	}
}

// awaitPublished waits until every fact is marked as published.
func (r *wholeRail) awaitPublished(t *testing.T) {
	t.Helper()
	eventually(t, 3*time.Minute, "every fact is published", func() bool {
		return one[int](t, r.db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`) == 0
	})
}

// awaitEmptyQueue waits until every message is deleted or buried.
func (r *wholeRail) awaitEmptyQueue(t *testing.T) {
	t.Helper()
	eventually(t, 3*time.Minute, "the queue is empty", func() bool {
		visible, inFlight, delayed := r.Depth("brief")
		return visible+inFlight+delayed == 0
	})
}

// assertDelivered: each fact was accepted by the bus at least once, has one receipt
// and is in a landed frame; nobody built more than the facts and the retries ask.
func (r *wholeRail) assertDelivered(t *testing.T) {
	t.Helper()
	assertCurrent(t, r.db.Pool)
	r.db.CheckLedger(t)
	assertCalls(t, r.db.Pool, r.builder)
	facts := one[int](t, r.db.Pool, `SELECT count(*) FROM ops.domain_event_outbox`)
	if n := r.Stats().Events; n < facts {
		t.Errorf("%d facts, the bus took %d", facts, n)
	}
	for what, sql := range map[string]string{
		"facts not published":   `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`,
		"receipts beside facts": `SELECT (SELECT count(*) FROM ops.trigger_receipts) - (SELECT count(*) FROM ops.domain_event_outbox)`,
		"matters whose landed demands are not their facts": `SELECT count(*) FROM (
			SELECT firm_id, matter_id, sum(demands) AS n FROM ops.matter_frame_runs WHERE outcome = 'landed' GROUP BY 1, 2) l
			FULL JOIN (SELECT firm_id, matter_id, count(*) AS n FROM ops.domain_event_outbox WHERE event_name = 'document.uploaded' GROUP BY 1, 2) f
			USING (firm_id, matter_id) WHERE l.n IS DISTINCT FROM f.n`,
		"matters with more builds than facts and retries": `SELECT count(*) FROM (
			SELECT firm_id, matter_id, count(*) AS n, count(*) FILTER (WHERE outcome <> 'landed') AS retries FROM ops.matter_frame_runs GROUP BY 1, 2) b
			WHERE n > retries + (SELECT count(*) FROM ops.domain_event_outbox o
				WHERE o.firm_id = b.firm_id AND o.matter_id = b.matter_id AND o.event_name = 'document.uploaded')`,
	} {
		if n := one[int](t, r.db.Pool, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// letters counts the dead letters by what is wrong with each; "" is a nudge that is
// right, and came here as its receivers died.
func (r *wholeRail) letters(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, body := range r.Bodies("brief-dead") {
		n, err := nudge.Decode([]byte(body))
		if err != nil {
			count["malformed"]++
			continue
		}
		count[one[string](t, r.db.Pool, `SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox WHERE event_id = $1) THEN 'unknown'
			WHEN NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox WHERE event_id = $1 AND firm_id = $2 AND matter_id = $3) THEN 'mismatch'
			ELSE '' END`, n.Event, n.Firm, n.Matter)]++
	}
	return count
}

// assertForgeries: every counterfeit lies among the dead letters, was spoken of by a
// worker, and was counted as often as it was spoken of.
func (r *wholeRail) assertForgeries(t *testing.T, living []*process) {
	t.Helper()
	dead := r.letters(t)
	if got := dead["malformed"] + dead["unknown"] + dead["mismatch"]; got != r.Stats().Forged || got == 0 {
		t.Errorf("%d forged nudges, %d dead letters are: %v", r.Stats().Forged, got, dead)
	}
	for _, outcome := range []string{"unknown", "mismatch"} {
		ids := map[string]bool{}
		for _, w := range r.workers {
			for _, id := range w.log.suspects(outcome) {
				ids[id] = true
			}
		}
		if len(ids) != dead[outcome] {
			t.Errorf("%d nudges were called %s, %d are dead letters", len(ids), outcome, dead[outcome])
		}
		for _, w := range living {
			if counted, said := w.metric(`rail_nudges_total{outcome="`+outcome+`"}`), len(w.log.suspects(outcome)); counted != float64(said) {
				t.Errorf("%v counted as %s, %d logged", counted, outcome, said)
			}
		}
	}
}

// suspects are the ids of the messages that a worker left for the dead letters, one
// for each time that it had them.
func (l *logBuffer) suspects(outcome string) (ids []string) {
	lines := bufio.NewScanner(strings.NewReader(l.String()))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			Msg, Outcome string
			ID           string `json:"message_id"`
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.Msg == "nudge left for the dead letters" && m.Outcome == outcome {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// tellOfMatters appends so many facts for each matter.
func (r *wholeRail) tellOfMatters(t *testing.T, each int, keys ...rail.Key) {
	t.Helper()
	for range each {
		tell(t, r.db.Pool, uploaded, keys...)
	}
}
