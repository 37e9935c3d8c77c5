package archtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"briefrail/internal/config"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/provision"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
)

// What correctness takes for granted of settings, queues and platforms. No proof in
// this repository holds where one of these does not, so each is read from what is
// shipped.

// shipped is the worker's configuration by default and by the example file, as an
// operator would start it.
func shipped(t *testing.T) map[string]*config.Config {
	t.Helper()
	defaults := []string{"RAIL_DATABASE_URL=postgres://rail@db/rail", "RAIL_BUILDER_HTTP_URL=http://builder/build"}
	files, err := filepath.Glob("../../deploy/*worker*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration is shipped: %v", err)
	}
	sources := map[string][]string{"defaults": defaults}
	for _, f := range files {
		sources[filepath.Base(f)] = []string{"RAIL_CONFIG=" + f}
	}
	out := map[string]*config.Config{}
	for name, env := range sources {
		cfg, err := config.Load(config.Source{Component: config.Worker, Env: append(env, "PATH=/bin")})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = cfg
	}
	return out
}

// source reads a duration or number from a declaration that nobody exports.
func source(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s says nothing like %s: an assumption is read from there", file, pattern)
	}
	return string(found[1])
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// A claim that is alive must not be swept, or every long build is made twice and in the
// end parked: the lease is renewed, or is longer than the longest build and what claiming
// and landing take. Between two renewals (a third of the lease) several sweeps and a
// short failover must fit, or a hiccup takes claims from the living.
func TestAssumeLeasesOutlastBuilds(t *testing.T) {
	t.Parallel()
	for name, cfg := range shipped(t) {
		if !cfg.Lease.Renew && cfg.Lease.Duration < cfg.Builder.Timeout+30*time.Second {
			t.Errorf("%s: a lease of %s, not renewed, for builds of %s", name, cfg.Lease.Duration, cfg.Builder.Timeout)
		}
		if cfg.Lease.Duration/3 < 5*cfg.Sweep.Every {
			t.Errorf("%s: a lease of %s beside a sweep every %s", name, cfg.Lease.Duration, cfg.Sweep.Every)
		}
	}
	for _, c := range []struct {
		lease, timeout, renew string
		sound                 bool
	}{
		{"60s", "15m", "on", true},
		{"60s", "15m", "off", false},
		{"15m29s", "15m", "off", false}, // the margin is 30s
		{"15m30s", "15m", "off", true},
	} {
		_, err := config.Load(config.Source{Component: config.Worker, Env: []string{
			"RAIL_DATABASE_URL=postgres://rail@db/rail", "RAIL_BUILDER_HTTP_URL=http://builder/build",
			"RAIL_LEASE_DURATION=" + c.lease, "RAIL_BUILDER_TIMEOUT=" + c.timeout, "RAIL_LEASE_RENEW=" + c.renew,
		}})
		if (err == nil) != c.sound {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A receipt is what makes a nudge that comes again cost nothing. The longest way round is
// a dead-letter queue, which keeps for 14 days; a receipt that is gone by then has the
// matter built again. Nor may a fact outlive its receipt, or it would be decided again.
func TestAssumeReceiptsOutlastRedelivery(t *testing.T) {
	t.Parallel()
	kept := seconds(t, source(t, "internal/nudge/provision/way.go", `"MessageRetentionPeriod": "(\d+)"`))
	if longest := 14 * 24 * time.Hour; kept > longest {
		t.Errorf("letters are kept for %s, longer than SQS can", kept)
	}
	for name, cfg := range shipped(t) {
		if cfg.Receipts.Retention <= kept || cfg.Receipts.Retention < cfg.Outbox.Retention {
			t.Errorf("%s: receipts for %s, letters for %s, facts for %s", name, cfg.Receipts.Retention, kept, cfg.Outbox.Retention)
		}
	}
	for retention, sound := range map[string]bool{"14d": false, "15d": true} {
		_, err := config.Load(config.Source{Component: config.Worker, Env: []string{
			"RAIL_DATABASE_URL=postgres://rail@db/rail", "RAIL_BUILDER_HTTP_URL=http://builder/build", "RAIL_RECEIPTS_RETENTION=" + retention,
		}})
		if (err == nil) != sound {
			t.Errorf("receipts.retention %s: %v", retention, err)
		}
	}
}

// laid asks for the attributes of the queue that internal/nudge/provision makes when it
// is told nothing.
func laid(t *testing.T) (attributes map[string]string) {
	t.Helper()
	url, closeServer, err := awsfake.New(awsfake.Options{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeServer)
	way, err := provision.Lay(t.Context(), provision.Options{Endpoint: url, Name: "assumed"})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader(`{"QueueUrl":` + strconv.Quote(way.Queue) + `,"AttributeNames":["All"]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "AmazonSQS.GetQueueAttributes")
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var said struct{ Attributes map[string]string }
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	return said.Attributes
}

// A message must stay hidden while its batch is being decided, or it is handed to a
// second worker meanwhile: that costs only work, but of every message under load.
func TestAssumeVisibilityOutlastsSettling(t *testing.T) {
	t.Parallel()
	settling := seconds(t, source(t, "internal/trigger/consume.go", `settleTime = (\d+) \* time\.Second`))
	if visible := seconds(t, laid(t)["VisibilityTimeout"]); visible <= settling {
		t.Errorf("messages come back after %s, and a batch may take %s", visible, settling)
	}
	// what a queue that others made is warned of, and what is advised
	const preflight = "internal/nudge/preflight_queue.go"
	if least := seconds(t, source(t, preflight, `shortVisibility\s+= (\d+) \* time\.Second`)); least < settling {
		t.Errorf("nobody is warned of messages that come back after %s, and a batch may take %s", least, settling)
	}
	if advised := seconds(t, source(t, preflight, `set VisibilityTimeout to (\d+) s`)); advised <= settling {
		t.Errorf("%s is advised, and a batch may take %s", advised, settling)
	}
}

// A message whose worker is stopped by a deploy has been received once for nothing. With
// fewer than five receives a rolling deploy on a bad day sends good messages to the dead
// letters, where nobody looks at night.
func TestAssumeRedriveIsPatient(t *testing.T) {
	t.Parallel()
	receives := regexp.MustCompile(`"maxReceiveCount":\s*"?(\d+)`).FindStringSubmatch(laid(t)["RedrivePolicy"])
	if receives == nil {
		t.Fatal("the queue has no redrive policy")
	}
	for what, text := range map[string]string{
		"the queue that is made":    receives[1],
		"what others are warned of": source(t, "internal/nudge/preflight_queue.go", `fewReceives\s+= (\d+)`),
	} {
		if n, err := strconv.Atoi(text); err != nil || n < 5 {
			t.Errorf("%s: %d receives, %v", what, n, err)
		}
	}
	count := regexp.MustCompile(`maxReceiveCount\\?["']?\s*[:=]\s*\\?["']?(\d+)`)
	for file, text := range deployed(t) {
		for _, m := range count.FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(m[1]); err != nil || n < 5 {
				t.Errorf("%s: maxReceiveCount %s", file, m[1])
			}
		}
	}
}

// deployed is what is shipped for those who run the rail, by file.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	module, err := load(os.DirFS("../../deploy"))
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(module.texts, func(name, _ string) bool { return strings.HasSuffix(name, ".go") })
	return module.texts
}

// A worker that is stopped gives its builds worker.stop_grace and then hands its claims
// back, for which it has as long as a landing may take. A platform that kills sooner
// turns every deploy into leases that run out and attempts that are charged. One that is
// not told waits 10 or 30 s.
func TestAssumePlatformsWaitForStops(t *testing.T) {
	t.Parallel()
	waits := map[string][]string{}
	for name, text := range deployed(t) {
		var file any
		if (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) && yaml.Unmarshal([]byte(text), &file) == nil {
			waits[name] = workerWaits(file)
		}
	}
	if len(slices.Concat(slices.Collect(maps.Values(waits))...)) == 0 {
		t.Skip("no file is shipped by which a platform would run a worker")
	}
	for config, cfg := range shipped(t) {
		least := cfg.Worker.StopGrace + 30*time.Second
		for file, all := range waits {
			for _, text := range all {
				if d, err := time.ParseDuration(text); err != nil || d < least {
					t.Errorf("%s: a worker is waited for %q, and %s needs %s", file, text, config, least)
				}
			}
		}
	}
}

// workerWaits finds, in a file of Compose or Kubernetes, how long each thing that runs a
// worker's image is waited for; empty where that is not said.
func workerWaits(node any) (found []string) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			found = append(found, workerWaits(v)...)
		}
	case map[string]any:
		if image, ok := n["image"].(string); ok && strings.Contains(image, "railworker") {
			wait, _ := n["stop_grace_period"].(string)
			found = append(found, wait)
		}
		if pod, ok := n["containers"].([]any); ok && strings.Contains(fmt.Sprint(pod), "railworker") {
			return append(found, fmt.Sprintf("%vs", n["terminationGracePeriodSeconds"]))
		}
		for _, v := range n {
			found = append(found, workerWaits(v)...)
		}
	}
	return found
}

// Whoever waited for a row must then see the row as it is, and a claim skip what others
// hold: both are READ COMMITTED. A server or database whose default is another must not
// matter: a session says so itself at its start.
func TestAssumeReadCommitted(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		db := pgtest.Empty(t)
		if _, err := db.Pool.Exec(t.Context(), `ALTER DATABASE `+db.Name+` SET default_transaction_isolation = '`+level+`'`); err != nil {
			t.Fatal(err)
		}
		pool := db.NewPool(t, 2)
		conn, err := pg.Connect(t.Context(), pg.Options{DSN: db.DSN})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		for name, session := range map[string]pg.DB{"pool": pool, "session": conn} {
			var got string
			if err := session.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation')`).Scan(&got); err != nil || got != "read committed" {
				t.Errorf("%s by default, %s: %q, %v", level, name, got, err)
			}
		}
		if got, err := pooledTransaction(t, db.DSN); err != nil || got != "read committed" {
			t.Errorf("%s by default, a transaction in Pooler mode: %q, %v", level, got, err)
		}
	}
}

// pooledTransaction tells how a transaction runs whose session could say nothing.
func pooledTransaction(t *testing.T, dsn string) (got string, err error) {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Options{DSN: dsn, Pooler: true})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation')`).Scan(&got)
	})
	return got, err
}

// Behind a pooler a session can say nothing at its start. Transactions say it themselves,
// for single statements the roles do.
func TestAssumeRolesReadCommitted(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"rail_worker", "rail_relay", "rail_operator"} {
		source(t, "deploy/roles.sql", `\('`+role+`', 'default_transaction_isolation', '(read committed)'\)`)
	}
}
