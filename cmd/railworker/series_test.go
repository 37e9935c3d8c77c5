package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

// hostileText is different each time: lines, broken UTF-8, marks that turn text
// around, markup, and very long.
func hostileText() string {
	return fmt.Sprintf("%x\n\r\x00\xff\xfe\u202e<script>\"'`{a=%q}", rand.Uint64(), "b") + strings.Repeat("é\xc3", 5000)
}

// hostileBuilder answers each call with another fault, in words that never repeat.
func hostileBuilder(_ context.Context, w http.ResponseWriter, c call) {
	w.Header().Set("Retry-After", fmt.Sprint(rand.Int64()))
	switch n := rand.N(10); n {
	case 0: // built: what refuses its landing is the table
		answer(w, c)
	case 1:
		w.Header().Set("Content-Type", fmt.Sprintf("application/x-%d", rand.Int64()))
		_, _ = io.WriteString(w, hostileText())
	case 2:
		w.Header().Set("Content-Type", "application/json")
		body, _ := json.Marshal(map[string]any{"error": hostileText()})
		_, _ = w.Write(body)
	case 3:
		c.Matter = rail.NewUUID()
		answer(w, c)
	case 4:
		w.Header().Set("Location", "http://127.0.0.1:1/"+url.PathEscape(hostileText()[:100]))
		w.WriteHeader(http.StatusFound)
	default:
		http.Error(w, hostileText(), []int{400, 409, 418, 422, 451, 500, 503, 511, 599}[rand.N(9)])
	}
}

// manyFirmsSQL is a matter of each of 50,000 firms, half of them idle; the others
// settle until after the test.
const manyFirmsSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, demands_owed, owed_since, queued_at, not_before)
SELECT gen_random_uuid(), gen_random_uuid(), CASE WHEN q THEN 'queued' ELSE 'idle' END, q::int, q::int,
       CASE WHEN q THEN clock_timestamp() END, CASE WHEN q THEN clock_timestamp() END, CASE WHEN q THEN clock_timestamp() + interval '10 hours' END
  FROM (SELECT n % 2 = 0 AS q FROM generate_series(1, 50000) n) x`

// refusedLandingsSQL refuses frames with codes and words that never repeat.
const refusedLandingsSQL = `
CREATE FUNCTION public.hostile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = upper(substr(md5(random()::text), 1, 5)), MESSAGE = repeat(md5(random()::text) || E'\n\u202e', 300);
END $$;
CREATE TRIGGER hostile BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION public.hostile()`

// series are the names and labels of every sample.
func (p *process) series(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	_, body := p.probe("/metrics")
	for line := range strings.Lines(body) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && !strings.HasPrefix(line, "#") {
			out[line[:i]] = true
		}
	}
	return out
}

// differ lists what only one of two sets has.
func differ(a, b map[string]bool) (out []string) {
	for s := range a {
		if !b[s] {
			out = append(out, "- "+s)
		}
	}
	for s := range b {
		if !a[s] {
			out = append(out, "+ "+s)
		}
	}
	return out
}

func impatient() *http.Client { return &http.Client{Timeout: 30 * time.Second} }

// pester asks an admin listener for what it does not have.
func (p *process) pester(t *testing.T) {
	t.Helper()
	for range 20 {
		for _, path := range []string{"/metrics?name[]=", "/livez?verbose&x=", "/", "/metrics/"} {
			address := "http://" + p.admin + path + url.QueryEscape(hostileText()[:300])
			req, err := http.NewRequestWithContext(t.Context(), []string{"GET", "POST", "BREW"}[rand.N(3)], address, strings.NewReader(hostileText()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("User-Agent", fmt.Sprint(rand.Uint64()))
			if res, err := impatient().Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}
}

// post puts a body into the queue as anybody who may send to it can.
func (r *wholeRail) post(t *testing.T, body string) {
	t.Helper()
	text, err := json.Marshal(map[string]string{"QueueUrl": r.places.Queue, "MessageBody": body})
	if err != nil {
		t.Fatal(err)
	}
	place, err := url.Parse(r.places.Queue)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+place.Host+"/", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	res, err := impatient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		t.Fatalf("the queue took no message: %s %s", res.Status, answer)
	}
}

// molest makes every other party say what it likes: bus, queue, their messages, the
// names of facts, the listeners' visitors.
func (r *wholeRail) molest(t *testing.T, daemons ...*process) {
	t.Helper()
	for _, op := range []string{"PutEvents", "ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes"} {
		r.Script(op, awsfake.FailEntry(0, hostileText()), awsfake.Refuse(http.StatusBadRequest, hostileText()[:200]), awsfake.OK(),
			awsfake.Garbage(http.StatusOK, "text/html", hostileText()), awsfake.FailEntryBySender(0, hostileText()), awsfake.Garbage(599, "text/plain", hostileText()))
	}
	for i := range 30 {
		r.post(t, strings.ReplaceAll(hostileText(), "\x00", "")) // which a queue refuses
		r.post(t, fmt.Sprintf(`{"v":1,"event_id":%q,"event_name":"noun%d.verb","firm_id":%q,"matter_id":null}`, rail.NewUUID(), i, rail.NewUUID()))
	}
	for i, k := range newKeys(40, 40) {
		tell(t, r.db.Pool, uploaded, k)
		tell(t, r.db.Pool, fmt.Sprintf("noun%d.verb%d", i, rand.Uint64()), k)
	}
	for _, p := range daemons {
		p.pester(t)
	}
}

// Series do not grow with firms, nor by anything that others say: bus, queue and
// builder answer in words that never repeat, the database refuses with codes of its
// own, and both daemons export what they exported before.
func TestSeriesStayConstant(t *testing.T) {
	t.Parallel()
	builder := serve(t, nil)
	r := newRail(t, builder, awsfake.Layout{})
	r.worker["CANARY_EVERY"] = "1s"
	relay, worker := r.startRelay(t), r.startWorker(t)
	relay.awaitStart(t)
	worker.awaitStart(t)
	k := newKey()
	tell(t, r.db.Pool, uploaded, k)
	awaitStatus(t, r.db.Pool, k, "idle")
	eventually(t, 5*time.Minute, "every gauge was read once", func() bool {
		for _, name := range audit.Invariants() {
			if worker.metric(fmt.Sprintf("rail_invariant_violations{invariant=%q}", name)) < 0 {
				return false
			}
		}
		return worker.metric(`rail_jobs{state="idle"}`) > 0 && worker.metric(`rail_queue_messages{queue="main",state="visible"}`) >= 0 &&
			worker.metric(`rail_outbox_oldest_undecided_timestamp_seconds`) >= 0 && relay.metric("rail_outbox_parked_rows") >= 0 &&
			worker.metric("rail_canary_last_success_timestamp_seconds") > 0
	})
	before := map[*process]map[string]bool{relay: relay.series(t), worker: worker.series(t)}

	for _, sql := range []string{manyFirmsSQL, refusedLandingsSQL} {
		if _, err := r.db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	builder.follow(hostileBuilder)
	calls := builder.count()
	r.molest(t, relay, worker)
	eventually(t, 4*time.Minute, "everybody was heard", func() bool {
		return builder.count() > calls+60 && worker.metric(`rail_nudges_total{outcome="malformed"}`) > 20 &&
			relay.metric(`rail_outbox_publish_failures_total{code="other"}`) > 0 && worker.metric(`rail_jobs{state="queued"}`) > 20000
	})
	r.Clear()
	for p, was := range before {
		var diff []string
		if !waitFor(t.Context(), 5*time.Minute, func() bool { diff = differ(was, p.series(t)); return len(diff) == 0 }) {
			t.Errorf("%d series, and of them are new or gone: %q", len(was), diff)
		}
		t.Logf("%d series", len(was))
	}
}
