package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/pgtest"
)

// journey is a fact's whole way over the fake: which program asked AWS for what.
type journey struct {
	t    *testing.T
	bin  string
	db   *pgtest.DB
	fake *awsfake.Server
	env  []string

	mu         sync.Mutex
	byPolicy   map[string]map[grant]bool
	operations map[string]bool
}

// wholeWay has every program do with AWS what it ever does: publish over a bus and
// straight to a queue, receive, settle, hand back, count, look along the way, list dead
// letters and send them back.
func wholeWay(t *testing.T) *journey {
	t.Helper()
	j := &journey{
		t: t, bin: t.TempDir(), db: pgtest.New(t), fake: awsfake.New(awsfake.Options{}),
		byPolicy: map[string]map[grant]bool{}, operations: map[string]bool{},
	}
	j.build("outbox-relay", "railworker", "railctl")
	direct := httptest.NewServer(j.fake)
	t.Cleanup(direct.Close)
	places := j.fake.Provision(direct.URL, awsfake.Layout{})
	j.env = []string{
		"RAIL_DATABASE_URL=" + j.db.DSN, "RAIL_ADMIN_LISTEN=127.0.0.1:0", "RAIL_BUILDER_HTTP_URL=" + builder(t), "RAIL_SETTLE_QUIET=0",
		"RAIL_RELAY_EVENT_BUS=" + places.Bus, "RAIL_TRIGGER_SOURCE=sqs", "RAIL_TRIGGER_QUEUE_URL=" + places.Queue,
		"RAIL_TRIGGER_GRACE=1h", "RAIL_TRIGGER_POLL_WAIT=1s", "RAIL_CANARY_EVERY=off", "RAIL_POLL_MAX_IDLE=100ms", "RAIL_RELAY_MAX_IDLE=100ms",
	}
	relay := j.start("relay.json", "outbox-relay", "RAIL_RELAY_SINKS=[eventbridge]")
	worker := j.start("worker.json", "railworker")
	j.pass(1)
	j.await("relay.json", grant{"sqs:GetQueueAttributes", "${undelivered_arn}"}) // the last of its look
	relay()
	relay = j.start("relay-sqs.json", "outbox-relay", "RAIL_RELAY_SINKS=[sqs]", "RAIL_RELAY_QUEUE_URL="+places.Queue)
	j.pass(2)
	j.await("relay-sqs.json", grant{"sqs:GetQueueAttributes", "${dead_letters_arn}"})
	relay()
	post(t, direct.URL, "AmazonSQS.SendMessage", map[string]any{"QueueUrl": places.Queue, "MessageBody": "no nudge"})
	j.await("worker.json", grant{"sqs:GetQueueAttributes", "${dead_letters_arn}"})
	j.until("a letter is dead", func() bool { n, _, _ := j.fake.Depth("brief-dead"); return n == 1 })
	worker()
	for _, args := range [][]string{{"doctor"}, {"dlq", "list"}, {"dlq", "redrive", "--yes", "--reason", "mended"}} {
		j.railctl(args...)
	}
	return j
}

func (j *journey) build(programs ...string) {
	j.t.Helper()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", j.bin + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "briefrail/cmd/"+p)
	}
	cmd := exec.CommandContext(j.t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		j.t.Fatalf("build: %v\n%s", err, out)
	}
}

// command is a program whose calls of AWS are noted for one policy.
func (j *journey) command(policy, program string, env []string, args ...string) *exec.Cmd {
	j.t.Helper()
	recorder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.record(policy, w, r) }))
	j.t.Cleanup(recorder.Close)
	cmd := exec.CommandContext(j.t.Context(), filepath.Join(j.bin, program), args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "RAIL_AWS_ENDPOINT=" + recorder.URL, "RAIL_AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing", "AWS_EC2_METADATA_DISABLED=true",
	}
	cmd.Env = append(append(cmd.Env, j.env...), env...)
	return cmd
}

// start runs a daemon until stop is called, which wants it to end well.
func (j *journey) start(policy, program string, env ...string) (stop func()) {
	j.t.Helper()
	var log bytes.Buffer
	cmd := j.command(policy, program, env, "run")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // gone already: Wait says how
			if err := cmd.Wait(); err != nil || j.t.Failed() {
				j.t.Errorf("%s: %v\n%s", program, err, log.String())
			}
		})
	}
	j.t.Cleanup(end)
	return end
}

func (j *journey) railctl(args ...string) {
	j.t.Helper()
	cmd := j.command("operator.json", "railctl", []string{"RAIL_RELAY_SINKS=[eventbridge]"}, args...)
	out, err := cmd.CombinedOutput()
	if err != nil && args[0] != "doctor" { // which judges the test's database too
		j.t.Fatalf("railctl %v: %v\n%s", args, err, out)
	}
}

// pass appends a fact and waits until the nth has landed.
func (j *journey) pass(n int) {
	j.t.Helper()
	_, err := j.db.Pool.Exec(j.t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'document.uploaded')`)
	if err != nil {
		j.t.Fatal(err)
	}
	j.until("the fact has landed", func() bool {
		var landed int
		err := j.db.Pool.QueryRow(j.t.Context(), `SELECT count(*) FROM ops.matter_frames`).Scan(&landed)
		return err == nil && landed == n
	})
}

func (j *journey) await(policy string, g grant) {
	j.t.Helper()
	j.until(fmt.Sprintf("%s: %v", policy, g), func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.byPolicy[policy][g]
	})
}

func (j *journey) until(what string, holds func() bool) {
	j.t.Helper()
	end, look := time.After(2*time.Minute), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-end:
			j.mu.Lock()
			defer j.mu.Unlock()
			j.t.Fatalf("not within 2 minutes: %s; calls so far: %v", what, j.byPolicy)
		case <-look.C:
		}
	}
}

// record notes what a call needs of a policy, and lets the fake answer.
func (j *journey) record(policy string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	prefix := map[string]string{"AWSEvents": "events:", "AmazonSQS": "sqs:"}[service]
	j.mu.Lock()
	if j.byPolicy[policy] == nil {
		j.byPolicy[policy] = map[grant]bool{}
	}
	// an action covers the batch variant too
	j.byPolicy[policy][grant{prefix + strings.TrimSuffix(operation, "Batch"), resourceOf(operation, body)}] = true
	j.operations[operation] = true
	j.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	j.fake.ServeHTTP(w, r)
}

// resourceOf is the placeholder of the resource that a call is about.
func resourceOf(operation string, body []byte) string {
	var in struct{ QueueURL, QueueName, SourceArn string }
	_ = json.Unmarshal(body, &in) // what is none has no resource, and no policy allows that
	switch operation {
	case "ListRules":
		return "*"
	case "PutEvents", "DescribeEventBus":
		return "${bus_arn}"
	case "ListTargetsByRule":
		return "${rules_arn}"
	}
	for _, name := range []string{path.Base(in.QueueURL), in.QueueName, in.SourceArn[strings.LastIndexByte(in.SourceArn, ':')+1:]} {
		switch name {
		case "brief":
			return "${queue_arn}"
		case "brief-dead":
			return "${dead_letters_arn}"
		case "brief-undelivered":
			return "${undelivered_arn}"
		}
	}
	return "unknown: " + string(body)
}

// builder answers every request for a build at once.
func builder(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // a worker that is gone needs no answer
			"firm_id": in["firm_id"], "matter_id": in["matter_id"], "generation": in["generation"],
			"schema_version": "test/1", "builder_version": "test/1", "frame": map[string]any{},
		})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// post calls the fake as a stranger would.
func post(t *testing.T, url, target string, in any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", target)
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", target, resp.Status)
	}
}
