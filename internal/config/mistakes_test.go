package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// mistake is a variable, and what its refusal must say.
type mistake struct{ env, says string }

// scalarMistakes are the measured ones of the field reports, and their neighbours.
func scalarMistakes() []mistake {
	return []mistake{
		{"RAIL_LEASE=15", "RAIL_LEASE (environment): no program of ours knows this variable; did you mean RAIL_LEASE_DURATION or RAIL_LEASE_RENEW or RAIL_RELAY_LEASE?"},
		{"RAIL_LEASE_DURATION=15", `lease.duration (environment RAIL_LEASE_DURATION): "15" has no unit; write a duration with a unit`},
		{"RAIL_LEASE_DURATION=15mm", `"15mm" is not a duration`},
		{"RAIL_LEASE_DURATION=-5m", `"-5m" is negative`},
		{"RAIL_LEASE_DURATION=+5m", "has a sign"},
		{"RAIL_LEASE_DURATION=0", "out of bounds"},
		{"RAIL_LEASE_DURATION=499ms", "from 500ms to 1d"},
		{"RAIL_LEASE_DURATION=1.5", "has no unit"},
		{"RAIL_LEASE_DURATION= 60s", "is not a duration"},
		{"RAIL_LEASE_DURATION=60 s", "is not a duration"},
		{"RAIL_LEASE_DURATION=99999999h", "is not a duration"},
		{"RAIL_SETTLE_QUIET=0.1ns", "finer than a millisecond"},
		{"RAIL_SETTLE_QUIET=0s", "zero in disguise"},
		{"RAIL_RUNS_RETENTION=1d25h", "is not a duration"},
		{"RAIL_RUNS_RETENTION=1d-1h", "is not a duration"},
		{"RAIL_WORKER_SLOTS=16.0", "not a whole number"},
		{"RAIL_WORKER_SLOTS=010", "not a whole number"},
		{"RAIL_WORKER_SLOTS=0x10", "not a whole number"},
		{"RAIL_WORKER_SLOTS=99999999999999999999", "out of bounds"},
		{"RAIL_WORKER_SLOTS=0", "from 1 to 10000"},
		{"RAIL_WORKER_SLOTS=-1", "out of bounds"},
		{"RAIL_BUILDER_MAX_FRAME_BYTES=16", "has no unit"},
		{"RAIL_BUILDER_MAX_FRAME_BYTES=16MB", "one that is not known"},
		{"RAIL_BUILDER_MAX_FRAME_BYTES=999999999999999999GiB", "too large"},
		{"RAIL_BUILDER_MAX_FRAME_BYTES=1.5MiB", "is not a size"},
		{"RAIL_LEASE_RENEW=maybe", "neither on nor off"},
		{"RAIL_LEASE_RENEW=1", "neither on nor off"},
		{"RAIL_LOG_LEVEL=INFO", "one of debug, info, warn, error"},
		{"RAIL_BUILDER_KIND=grpc", "one of http, exec"},
		{"RAIL_ADMIN_LISTEN=9464", "host:port"},
		{"RAIL_ADMIN_LISTEN=:99999", "no valid port"},
		{"RAIL_WORKER_SLOT=3", "did you mean RAIL_WORKER_SLOTS?"},
		{"RAIL_SLOTS=3", "did you mean RAIL_WORKER_SLOTS?"},
		{"RAIL_XYZZY_PLUGH=3", "remove it"},
		{"RAIL_DATABASE_PASSWORD=hunter2", "did you mean RAIL_DATABASE_PASSWORD_FILE?"},
		{"RAIL_ADMIN_PASSWORD_FILE=hunter2", "not the secret itself"},
		{"RAIL_ADMIN_PASSWORD_FILE=/hunter2", "secret file cannot be read: no such file"},
		{"RAIL_BUILDER_HTTP_URL=http://u:hunter2@b/", "carries a user or password"},
		{"RAIL_BUILDER_HTTP_URL=builder:80", "not an http or https URL"},
		{"RAIL_BUILDER_EXEC_COMMAND=/bin/build --fast", "not a list"},
	}
}

// meaningMistakes are well formed but mean nothing, or do not fit other settings.
func meaningMistakes() []mistake {
	return []mistake{
		{"RAIL_TRIGGER_RULES=[]x", "is not a list"},
		{"RAIL_TRIGGER_RULES=[{name: Document.Uploaded, priority: bulk}]", "lower-case noun.verb"},
		{"RAIL_TRIGGER_RULES=[{name: brief.landed, priority: bulk}]", "can never trigger"},
		{"RAIL_TRIGGER_RULES=[{name: a.b, priority: bulk}, {name: a.b, priority: standard}]", "item 2: a.b has a rule already"},
		{"RAIL_TRIGGER_RULES=[{name: a.b, priority: urgent}]", "use interactive, standard or bulk"},
		{"RAIL_TRIGGER_RULES=[{name: a.b}]", "needs a name and a priority"},
		{"RAIL_TRIGGER_RULES=[{name: a.b, priority: bulk, settle: 5}]", `settle "5" has no unit`},
		{"RAIL_TRIGGER_RULES=[{name: a.b, priority: bulk, delay: 5s}]", `"delay" is no field of a rule`},
		{"RAIL_TRIGGER_RULES=[{name: a.b, priority: bulk, settle: 2m}]", "more than settle.max_wait"},
		{"RAIL_TRIGGER_RULES={a.b: bulk}", "a section, not a list"},
		{"RAIL_TRIGGER_DISABLED_FIRMS=[x]", "item 1"},
		{"RAIL_TRIGGER_OPEN_MATTER_SQL=true; drop table x", "more than a condition"},
		{"RAIL_TRIGGER_SOURCE=sqs", "trigger.queue_url"},
		{"RAIL_TRIGGER_POLL_WAIT=1500ms", "whole seconds"},
		{"RAIL_TRIGGER_GRACE=30s", "would delay every fact"},
		{"RAIL_API_LISTEN=:1", "api.token_file (default): is not set"},
		{"RAIL_API_TOKEN_FILE=/etc/hosts", "which lets others in"},
		{"RAIL_API_CERTIFICATE_FILE=/etc/hosts", "set both or neither"},
		{"RAIL_RELAY_EVENT_SOURCE=aws.events", "not starting with aws."},
		{"RAIL_LEASE_RENEW=off", "lease.duration (default): is 1m, shorter than builder.timeout (15m) + 30s while lease.renew is off"},
		{"RAIL_WORKER_STOP_GRACE=110s", "from 0 to 109s"},
		{"RAIL_DATABASE_MAX_CONNS=4", "write at least 5"},
		{"RAIL_DATABASE_URL_FILE=/dev/null", "keep one of them"},
		{"RAIL_RECEIPTS_RETENTION=14d", "write at least 15d"},
		{"RAIL_OUTBOX_RETENTION=31d", "more than receipts.retention (30d)"},
		{"RAIL_RETRY_BACKOFF=11m", "more than retry.backoff_max (10m)"},
		{"RAIL_SETTLE_QUIET=61s", "settle.quiet (environment RAIL_SETTLE_QUIET): is 1m1s, more than settle.max_wait (1m)"},
		{"RAIL_BUILDER_KIND=exec", "builder.exec.command (default): is empty"},
		{"RAIL_ADMIN_USERNAME=u", "set both or neither"},
		{"RAIL_CONFIG=/no/such.yaml", "no such file"},
		{"RAIL_LOG_LEVEL=\xff", "is not valid UTF-8"},
	}
}

func TestMistakesInVariables(t *testing.T) {
	t.Parallel()
	for _, c := range append(scalarMistakes(), meaningMistakes()...) {
		got := faults(t, Source{Component: Worker, Env: base(c.env)})
		if !strings.Contains(got, c.says) {
			t.Errorf("%s\n  says %s\n  want %s", c.env, got, c.says)
		}
		if strings.Contains(got, "hunter") {
			t.Errorf("%s: the secret is told: %s", c.env, got)
		}
	}
}

func TestMistakesOfARelay(t *testing.T) {
	t.Parallel()
	for _, c := range []mistake{
		{"RAIL_RELAY_SINKS=[]", "write [none]"},
		{"RAIL_RELAY_SINKS=eventbridge", "a list of eventbridge, sqs, none, such as [eventbridge]"},
		{"RAIL_RELAY_SINKS=[eventbridge, kafka]", "item 2 is not a known word"},
		{"RAIL_RELAY_SINKS=[sqs, sqs]", "sqs is there twice"},
		{"RAIL_RELAY_SINKS=[none, eventbridge]", "has none beside a sink"},
		{"RAIL_RELAY_SINKS=[sqs]", "set it (RAIL_RELAY_QUEUE_URL)"},
		{"RAIL_RELAY_BACKOFF=6m", "more than relay.backoff_max (5m)"},
		{"RAIL_RELAY_MAX_IDLE=11s", "is longer than relay.lease"},
		{"RAIL_DATABASE_MAX_CONNS=3", "too few for the relay's loops"},
	} {
		if got := faults(t, Source{Component: Relay, Env: base(c.env)}); !strings.Contains(got, c.says) {
			t.Errorf("%s\n  says %s\n  want %s", c.env, got, c.says)
		}
	}
}

func TestMistakesInFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, says string }{
		{"lease: 15", "lease ("},
		{"lease: 15", "is a section and takes no value of its own; did you mean lease.duration or lease.renew or relay.lease?"},
		{"worker:\n  slots: 3\nlease:\n  duration: 15", `:4): "15" has no unit`},
		{"lease: {duration: 15mm}", `"15mm" is not a duration`},
		{"lease: {duration: -5m}", `"-5m" is negative`},
		{"lease: {duration: [60s]}", "is a list, not a single value"},
		{"lease: {duration: {seconds: 60}}", "is a section, not a single value"},
		{"lease:\n  duration:", "has no value"},
		{"lease: {durations: 60s}", "lease.durations"},
		{"lease: {durations: 60s}", "did you mean lease.duration?"},
		{"Lease: {duration: 60s}", "Lease ("},
		{"lease: {Duration: 60s}", "(names are lower case); did you mean lease.duration?"},
		{"lease: {duration: 60s}\nlease: {duration: 30s}", "is set twice"},
		{"lease: {duration: 60s, duration: 60s}", "is set twice"},
		{"lease.duration: 60s", "has a dot in its name; nest it: lease: {duration}"},
		{"slots: 3", "did you mean worker.slots?"},
		{"worker: {slots: 010}", `"010" is not a whole number`},
		{"worker: {slots: 1_000}", "not a whole number"},
		{"database: {max_conns: 8.0}", "not a whole number"},
		{"trigger: {rules: {document.uploaded: standard}}", "a section, not a list"},
		{"trigger: {rules: [{Name: a.b, priority: bulk}]}", `"Name" is no field of a rule`},
		{"trigger: {rules: [a.b]}", "not an object"},
		{"a: &x {b: *x}", "anchors and aliases"},
		{"a: 1\n---\nb: 2", "more than one YAML document"},
		{"\tx", "is not YAML"},
		{"[1]", "holds a list instead of settings"},
		{strings.Repeat("a: {", 40) + strings.Repeat("}", 40), "nested too deep"},
		{strings.Repeat("#", maxFile+1), "is larger than 1MiB"},
		{"database: {url: 'postgres://u:hunter2@h/d', urls: hunter2}", "did you mean database.url?"},
		{"database: {url: [hunter2]}", "is a list, not a single value"},
	} {
		path := writeFile(t, "rail.yaml", c.file)
		got := faults(t, Source{Component: Worker, Env: base("RAIL_CONFIG=" + path)})
		if !strings.Contains(got, c.says) {
			t.Errorf("%.80s\n  says %s\n  want %s", c.file, got, c.says)
		}
		if strings.Contains(got, "hunter") {
			t.Errorf("%s: the secret is told: %s", c.file, got)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "rail.yaml", "lease: {duration: 15}\nworker: {slot: 3}\n")
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	AddFlags(fs, Worker)
	if err := fs.Parse([]string{"--config", path, "--retry-backoff="}); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{Component: Worker, Flags: fs, Env: base("RAIL_SWEEP_EVRY=1s", "RAIL_SWEEP_BATCH=x")})
	var got []string
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("no Problem in %v", err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		got = append(got, strings.SplitN(line, ":", 2)[0])
	}
	want := []string{
		"configuration is not valid", "RAIL_SWEEP_EVRY (environment)", "worker.slot (" + path,
		"lease.duration (" + path, "sweep.batch (environment RAIL_SWEEP_BATCH)", "retry.backoff (flag --retry-backoff)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestForeignVariablesAreLetThrough(t *testing.T) {
	t.Parallel()
	mustLoad(t, Source{Component: Worker, Env: base(
		"RAIL_BUILDER_SERVICE_HOST=10.0.0.1", "RAIL_BUILDER_SERVICE_PORT=80", "RAIL_BUILDER_SERVICE_PORT_HTTP=80",
		"RAIL_BUILDER_PORT=tcp://10.0.0.1:80", "RAIL_BUILDER_PORT_80_TCP_ADDR=10.0.0.1", "RAIL_PORT=tcp://x",
		"RAIL_TEST_AWS=1", "RAIL_RELAY_INFLIGHT=2", "RAILS_ENV=production")})
}

func TestNeededPerProgram(t *testing.T) {
	t.Parallel()
	mustLoad(t, Source{Component: Control})
	for _, c := range []Component{Worker, Relay} {
		if got := faults(t, Source{Component: c}); !strings.Contains(got, "database.url (default): is not set") {
			t.Errorf("%s: %s", c, got)
		}
	}
	if got := faults(t, Source{Component: Worker}); !strings.Contains(got, "builder.http.url (default): is not set") {
		t.Error(got)
	}
}

func TestRenewalOffWithLongLease(t *testing.T) {
	t.Parallel()
	env := base("RAIL_LEASE_RENEW=off", "RAIL_BUILDER_TIMEOUT=12s", "RAIL_LEASE_DURATION=42s")
	cfg := mustLoad(t, Source{Component: Worker, Env: env})
	if cfg.Builder.IdleTimeout != 12*time.Second {
		t.Errorf("the default of builder.idle_timeout stayed at %s", cfg.Builder.IdleTimeout)
	}
	env = append(env, "RAIL_LEASE_DURATION=41s")
	if got := faults(t, Source{Component: Worker, Env: env}); !strings.Contains(got, "write at least 42s") {
		t.Error(got)
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "dsn")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("postgres://rail@one/rail\r\n")
	cfg := mustLoad(t, Source{Component: Relay, Env: []string{"RAIL_DATABASE_URL_FILE=" + path}})
	write("postgres://rail@two/rail\n")
	if dsn, err := cfg.Database.DSN(); err != nil || dsn != "postgres://rail@two/rail" {
		t.Errorf("after rotation: %q, %v", dsn, err)
	}
	if pw, err := cfg.Database.Password(); err != nil || pw != "" {
		t.Errorf("password without a file: %q, %v", pw, err)
	}
	for _, bad := range []string{"", "\n", "a\x00b", "\xff", strings.Repeat("x", maxSecret+1)} {
		write(bad)
		if _, err := cfg.Database.DSN(); err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
	if _, err := (DatabaseSettings{}).DSN(); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("got %v", err)
	}
}

func TestSecretsHaveNoFlag(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	AddFlags(fs, Worker)
	for _, s := range table() {
		has := fs.Lookup(strings.NewReplacer(".", "-", "_", "-").Replace(s.key)) != nil
		if want := s.usedBy(Worker) && !s.secret && !s.kind.list; has != want {
			t.Errorf("%s: flag %v, want %v", s.key, has, want)
		}
	}
}

func TestRedactDSN(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:hunter@h/d", "postgres://u:p@hunter/x@h/d", "postgres://u:hu/nter@h/d", "postgres://u:12/hunter@h/d",
		"postgres://u:1#hunter@h/d", "postgres://u:1?hunter@h/d", "host=h password=hunter", "postgres://u@h/d?password=hunter",
		"postgres:hunter", "hunter", "postgres://u:%hunter@h/d", "postgres://hunter/d",
	} {
		if got := redactDSN(dsn); strings.Contains(got, "hunter") && dsn != "postgres://u:p@hunter/x@h/d" {
			t.Errorf("%s shows %s", dsn, got)
		}
	}
	if got := redactDSN("postgres://u:p@hunter/x@h/d"); got != hidden {
		t.Errorf("ambiguous address shows %s", got)
	}
	if got := redactDSN("postgres://u@h:5432/d?sslmode=verify-full"); got != "postgres://u@h:5432/d (rest hidden)" {
		t.Error(got)
	}
}

func TestFormatsReadBack(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Millisecond, 90 * time.Second, 15 * time.Minute, 90 * day, 25*time.Hour + time.Millisecond} {
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Errorf("%s reads back as %s, %v", formatDuration(d), got, err)
		}
	}
	for _, n := range []int64{0, 1, 1023, 1 << 10, 200 << 10, 16 << 20, 3 << 30} {
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%s reads back as %d, %v", formatSize(n), got, err)
		}
	}
}
