package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTracingIsOffUnlessACollectorIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"}, "http://c:4318/v1/traces"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/otlp/"}, "https://c/otlp/v1/traces"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/x?k=v"}, "http://d/x?k=v"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_TRACES_EXPORTER=none"}, ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_SDK_DISABLED=TRUE"}, ""},
		// what others are told is no mistake of ours while nothing is traced
		{[]string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_SAMPLER=jaeger_remote", "OTEL_TRACES_EXPORTER=zipkin"}, ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_EXPORTER=none"}, ""},
		{[]string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_PYTHON_LOG_LEVEL=debug"}, ""},
	} {
		for _, program := range []Component{Worker, Relay} {
			cfg := mustLoad(t, Source{Component: program, Env: base(c.env...)})
			if got := cfg.Tracing.URL(); got != c.want {
				t.Errorf("%s of %q: %q, want %q", program, c.env, got, c.want)
			}
		}
	}
	// railctl traces nothing, so nothing of it can be wrong
	cfg := mustLoad(t, Source{Component: Control, Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=x", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}})
	if cfg.Tracing.URL() != "" {
		t.Error("railctl traces")
	}
}

func TestTracingVariablesAreFollowedOrRefused(t *testing.T) {
	t.Parallel()
	on := "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"
	cfg := mustLoad(t, Source{Component: Worker, Env: base(on, "OTEL_EXPORTER_OTLP_TIMEOUT=9000", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=2500",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b, x = y", "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25")})
	if cfg.Tracing.Timeout != 2500*time.Millisecond || cfg.Tracing.SamplerArg != 0.25 {
		t.Errorf("got %+v", cfg.Tracing)
	}
	headers, err := cfg.Tracing.HeaderPairs()
	if err != nil || len(headers) != 2 || headers[0] != [2]string{"api-key", "a b"} || headers[1] != [2]string{"x", "y"} {
		t.Errorf("headers %q, %v", headers, err)
	}
	for refused, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json": "http/protobuf",
		"OTEL_TRACES_SAMPLER=xray": "parentbased_always_on", "OTEL_TRACES_SAMPLER_ARG=2": "from 0 to 1", "OTEL_TRACES_SAMPLER_ARG=NaN": "from 0 to 1",
		"OTEL_TRACES_EXPORTER=zipkin": "otlp, none", "OTEL_PROPAGATORS=b3": "tracecontext", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/k": "no client certificate",
		"OTEL_EXPORTER_OTLP_HEADERS=s3cret": "name=value", "OTEL_BSP_SCHEDULE_DELAY=-1": "milliseconds", "OTEL_BSP_MAX_QUEUE_SIZE=7": "lower it",
		"OTEL_EXPORTER_OTLP_HEADERS=a=s3cret%0d%0ab": "name=value",
	} {
		_, err := Load(Source{Component: Worker, Env: base(on, refused)})
		name, _, _ := strings.Cut(refused, "=")
		if err == nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", refused, err)
		} else if !strings.Contains(err.Error(), name) && name != "OTEL_BSP_MAX_QUEUE_SIZE" {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func TestHeadersAreNeverShown(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, Source{Component: Worker, Env: base("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318?key=s3cret", "OTEL_EXPORTER_OTLP_HEADERS=api-key=s3cret")})
	var show bytes.Buffer
	if err := cfg.Show(&show); err != nil || strings.Contains(show.String(), "s3cret") || !strings.Contains(show.String(), "tracing.headers") {
		t.Errorf("%v in\n%s", err, &show)
	}
}
