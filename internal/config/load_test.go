package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"briefrail/internal/rail"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// base is the least environment that a worker accepts.
func base(more ...string) []string {
	return append([]string{
		"PATH=/bin", "RAIL_DATABASE_URL=postgres://rail@db/rail", "RAIL_BUILDER_HTTP_URL=http://builder/build",
	}, more...)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, src Source) *Config {
	t.Helper()
	cfg, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// faults returns the problems of a configuration that must be refused.
func faults(t *testing.T, src Source) string {
	t.Helper()
	cfg, err := Load(src)
	if err == nil || cfg != nil {
		t.Fatalf("accepted: %v", err)
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("%v does not wrap ErrInvalid", err)
	}
	return err.Error()
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := mustLoad(t, Source{Component: Worker, Env: base()}).Settings
	rule := func(name rail.EventName, p rail.Priority) Rule { return Rule{name, p, 5 * time.Second} }
	want := Settings{
		Worker:   WorkerSettings{Slots: 16, StopGrace: 20 * time.Second},
		Lease:    LeaseSettings{Duration: time.Minute, Renew: true},
		Sweep:    SweepSettings{Every: time.Second, Batch: 100},
		Retry:    RetrySettings{MaxAttempts: 6, Backoff: 5 * time.Second, BackoffMax: 10 * time.Minute},
		Settle:   SettleSettings{Quiet: 5 * time.Second, MaxWait: time.Minute},
		Frames:   FramesSettings{Keep: 10},
		Runs:     RetentionSettings{90 * day},
		Outbox:   RetentionSettings{7 * day},
		Receipts: RetentionSettings{30 * day},
		Canary:   CanarySettings{time.Minute},
		Poll:     PollSettings{time.Second},
		Database: DatabaseSettings{
			URL: "postgres://rail@db/rail", MaxConns: 8,
			ConnectTimeout: 10 * time.Second, StatementTimeout: 30 * time.Second, StatementCache: 256,
		},
		Builder: BuilderSettings{
			Kind: "http", Timeout: 15 * time.Minute, IdleTimeout: time.Minute, MaxFrameBytes: 16 << 20,
			HTTP: HTTPBuilder{URL: "http://builder/build"}, Exec: ExecBuilder{Command: []string{}},
		},
		Trigger: TriggerSettings{Source: "ledger", Receivers: 2, PollWait: 10 * time.Second, DisabledFirms: []rail.UUID{}, Rules: []Rule{
			rule("matter.created", rail.Standard), rule("document.uploaded", rail.Standard),
			rule("document.deleted", rail.Standard), rule("document.replaced", rail.Standard),
			rule("brief.requested", rail.Interactive),
		}},
		Relay: RelaySettings{
			Sinks: []string{"none"}, EventBus: "default", EventSource: "brief.ops", BatchBytes: 200 << 10, Inflight: 4, MaxIdle: time.Second,
			Lease: 10 * time.Second, Timeout: 10 * time.Second, Backoff: time.Second, BackoffMax: 5 * time.Minute,
		},
		Admin: AdminSettings{Listen: "127.0.0.1:9464"},
		Log:   LogSettings{Level: "info", Format: "auto"},
		Tracing: TracingSettings{
			Exporter: "otlp", Protocol: "http/protobuf", Timeout: 10 * time.Second, Compression: "none", Sampler: "parentbased_always_on",
			SamplerArg: 1, Propagators: "tracecontext", Queue: 2048, Batch: 512, Delay: 5 * time.Second,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := mustLoad(t, Source{Component: Relay, Env: base()}).Admin.Listen; got != "127.0.0.1:9465" {
		t.Errorf("relay listens on %s", got)
	}
}

// samples is one value for each setting that differs from its default.
func samples(t *testing.T) map[string]string {
	secret := writeFile(t, "secret", "s3cret\n")
	return map[string]string{
		"worker.name": "w1", "worker.slots": "3", "worker.stop_grace": "7s", "poll.max_idle": "2s", "canary.every": "off",
		"lease.duration": "500ms", "lease.renew": "off", "sweep.every": "100ms", "sweep.batch": "7",
		"retry.max_attempts": "2", "retry.backoff": "1s", "retry.backoff_max": "1h30m", "settle.quiet": "0", "settle.max_wait": "2m",
		"dispatch.per_firm": "2", "dispatch.total": "9", "database.url": "postgres://o@h/d", "database.url_file": secret,
		"database.password_file": secret, "database.max_conns": "6", "database.connect_timeout": "1s",
		"database.statement_timeout": "2s", "database.statement_cache": "0", "frames.keep": "3", "runs.retention": "30d",
		"outbox.retention": "2d", "receipts.retention": "60d", "builder.kind": "exec", "builder.timeout": "2m",
		"builder.idle_timeout": "3s", "builder.max_frame_bytes": "1MiB", "builder.http.url": "https://b/",
		"builder.http.token_file": secret, "builder.exec.command": `["a", "b c"]`, "trigger.source": "sqs", "trigger.grace": "1s",
		"trigger.rules":           `[{"name":"a.b","priority":"bulk","settle":"3s"}]`,
		"trigger.open_matter_sql": "true", "trigger.disabled_firms": "[01234567-89ab-cdef-0123-456789abcdef]",
		"trigger.queue_url": "https://q/1", "trigger.receivers": "3", "trigger.poll_wait": "5s",
		"aws.endpoint": "http://127.0.0.1:4566", "aws.region": "eu-west-1",
		"relay.event_source": "x.y", "relay.batch_bytes": "2KiB", "relay.inflight": "1", "relay.max_idle": "3s",
		"relay.sinks": `["sqs", "eventbridge"]`, "relay.event_bus": "briefs", "relay.queue_url": "https://q/2", "relay.lease": "2s",
		"relay.timeout": "3s", "relay.backoff": "2s", "relay.backoff_max": "1m",
		"admin.listen": ":1", "admin.username": "u", "admin.password_file": secret, "api.listen": ":2", "api.token_file": secret,
		"api.certificate_file": secret, "api.key_file": secret,
		"console": "true", "log.level": "debug", "log.format": "json",
		"tracing.endpoint": "http://c:4318", "tracing.traces_endpoint": "http://c/t", "tracing.exporter": "none", "tracing.protocol": "http/protobuf",
		"tracing.headers": "api-key=s%20t", "tracing.headers_file": writeFile(t, "headers", "a=b"), "tracing.timeout": "2500",
		"tracing.compression": "gzip", "tracing.certificate": "/ca.pem", "tracing.sampler": "traceidratio", "tracing.sampler_arg": "0.25",
		"tracing.propagators": "baggage,tracecontext", "tracing.service_name": "briefs", "tracing.resource_attributes": "zone=a",
		"tracing.queue": "600", "tracing.batch": "7", "tracing.delay": "100ms",
	}
}

// loadOne decodes one variable alone, without the checks between settings.
func loadOne(t *testing.T, s setting, text string) any {
	t.Helper()
	program, env := Control, []string{s.env() + "=" + text}
	if strings.HasPrefix(s.key, "tracing.") {
		program, env = Relay, append(env, "RAIL_DATABASE_URL=postgres://o@h/d", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c/t")
	}
	cfg, err := Load(Source{Component: program, Env: env})
	if err != nil {
		t.Fatalf("%s: %v", s.key, err)
	}
	if want := "environment " + s.env(); cfg.origin[s.key] != want {
		t.Errorf("%s comes from %q, want %q", s.key, cfg.origin[s.key], want)
	}
	return cfg.value(s.key)
}

func TestEachSettingByVariableAlone(t *testing.T) {
	t.Parallel()
	values := samples(t)
	plain := mustLoad(t, Source{Component: Control})
	for _, s := range table() {
		text, ok := values[s.key]
		if !ok {
			t.Errorf("%s has no sample", s.key)
			continue
		}
		if s.doc == "" || len(s.used) == 0 {
			t.Errorf("%s needs a sentence and a user", s.key)
		}
		if foreign(s.env()) {
			t.Errorf("%s looks like a service link", s.env())
		}
		if got := loadOne(t, s, text); reflect.DeepEqual(got, plain.value(s.key)) && text != s.initial || got == nil {
			t.Errorf("%s: variable had no effect: %v", s.key, got)
		}
	}
}

func TestEmptyVariableIsNotSet(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, Source{Component: Worker, Env: base("RAIL_WORKER_SLOTS=", "RAIL_NO_SUCH=")})
	if cfg.Worker.Slots != 16 || cfg.origin["worker.slots"] != "default" {
		t.Errorf("slots %d from %s", cfg.Worker.Slots, cfg.origin["worker.slots"])
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "rail.yaml", "worker: {slots: 2}\nsweep: {batch: 2}\nlease:\n  duration: 2s\n")
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	AddFlags(fs, Worker)
	if err := fs.Parse([]string{"--config", path, "--worker-slots=4", "--lease-renew"}); err != nil {
		t.Fatal(err)
	}
	cfg := mustLoad(t, Source{Component: Worker, Flags: fs, Env: base("RAIL_WORKER_SLOTS=3", "RAIL_SWEEP_BATCH=3")})
	got := []any{cfg.Worker.Slots, cfg.Sweep.Batch, cfg.Lease.Duration, cfg.Retry.MaxAttempts, cfg.Lease.Renew}
	if diff := cmp.Diff([]any{4, 3, 2 * time.Second, 6, true}, got); diff != "" {
		t.Error(diff)
	}
	origins := []string{cfg.origin["worker.slots"], cfg.origin["sweep.batch"], cfg.origin["lease.duration"], cfg.origin["retry.max_attempts"]}
	want := []string{"flag --worker-slots", "environment RAIL_SWEEP_BATCH", path + ":4", "default"}
	if diff := cmp.Diff(want, origins); diff != "" {
		t.Error(diff)
	}
}

func TestTOML(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "rail.toml", `
[lease]
duration = "90s"
[worker]
slots = 5
[trigger]
rules = [{name = "a.b", priority = "bulk"}]
`)
	cfg := mustLoad(t, Source{Component: Worker, Env: base("RAIL_CONFIG=" + path)})
	if cfg.Lease.Duration != 90*time.Second || cfg.Worker.Slots != 5 {
		t.Errorf("got %+v %+v", cfg.Lease, cfg.Worker)
	}
	if diff := cmp.Diff([]Rule{{"a.b", rail.Bulk, 5 * time.Second}}, cfg.Trigger.Rules); diff != "" {
		t.Error(diff)
	}
	bad := writeFile(t, "bad.toml", "[lease]\nduration = 15\n")
	got := faults(t, Source{Component: Worker, Env: base("RAIL_CONFIG=" + bad)})
	if !strings.Contains(got, `lease.duration (`+bad+`): "15" has no unit`) {
		t.Error(got)
	}
}

func TestExampleFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "deploy", "railworker.yaml")
	for _, c := range anyone() {
		cfg := mustLoad(t, Source{Component: c, Env: []string{"RAIL_CONFIG=" + path}})
		if cfg.Database.URL == "" {
			t.Errorf("%s: no database", c)
		}
	}
	cfg := mustLoad(t, Source{Component: Worker, Env: []string{"RAIL_CONFIG=" + path}})
	plain := mustLoad(t, Source{Component: Worker, Env: base()})
	cfg.Database.URL, cfg.Builder.HTTP.URL = plain.Database.URL, plain.Builder.HTTP.URL
	if diff := cmp.Diff(plain.Settings, cfg.Settings); diff != "" {
		t.Errorf("the example departs from the defaults:\n%s", diff)
	}
}

func TestShowAndReference(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, Source{Component: Worker, Env: base("RAIL_DATABASE_URL=postgres://rail:hunter2@db/rail?sslpassword=hunter3")})
	var show, ref bytes.Buffer
	if err := errors.Join(cfg.Show(&show), Reference(&ref)); err != nil {
		t.Fatal(err)
	}
	for _, s := range table() {
		if s.usedBy(Worker) != strings.Contains(show.String(), "\n"+s.key+" ") {
			t.Errorf("%s: shown %v, used %v", s.key, !s.usedBy(Worker), s.usedBy(Worker))
		}
		if !strings.Contains(ref.String(), "| `"+s.key+"` | `"+s.env()+"` |") {
			t.Errorf("%s is not in the reference", s.key)
		}
	}
	if strings.Contains(show.String(), "hunter") {
		t.Error("a secret is shown")
	}
	for _, want := range []string{"lease.duration", "1m", "postgres://rail@db/rail (rest hidden)", "environment RAIL_DATABASE_URL"} {
		if !strings.Contains(show.String(), want) {
			t.Errorf("%q is not shown in\n%s", want, &show)
		}
	}
}

// What is turned off is shown by the word that turns it off, and a value that is
// shown may be written into a file as it is.
func TestOffIsShownAsOff(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, Source{Component: Worker, Env: base("RAIL_CANARY_EVERY=0", "RAIL_DISPATCH_TOTAL=7", "RAIL_ADMIN_LISTEN=off")})
	got := map[string]string{}
	for _, s := range cfg.Shown() {
		got[s.Setting] = s.Value
	}
	for key, want := range map[string]string{"canary.every": "off", "dispatch.per_firm": "off", "dispatch.total": "7", "admin.listen": "off"} {
		if got[key] != want {
			t.Errorf("%s is shown as %q, want %q", key, got[key], want)
		}
	}
}

func TestNearestNames(t *testing.T) {
	t.Parallel()
	known := []string{"document.uploaded", "document.deleted", "brief.requested"}
	if diff := cmp.Diff([]string{"document.uploaded"}, Nearest("document.uplaoded", known)); diff != "" {
		t.Error(diff)
	}
	if got := Nearest("invoice.paid", known); got != nil {
		t.Errorf("%q", got)
	}
}
