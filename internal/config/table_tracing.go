package config

// The variables of OpenTelemetry that decide whether anything is traced at all.
const (
	otelPrefix         = "OTEL_"
	otelEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelExporter       = "OTEL_TRACES_EXPORTER"
	otelDisabled       = "OTEL_SDK_DISABLED"
)

// ofTraces are the names of a variable that OpenTelemetry has twice: for all
// signals, and for traces alone, which wins.
func ofTraces(rest string) []string {
	return []string{"OTEL_EXPORTER_OTLP_" + rest, "OTEL_EXPORTER_OTLP_TRACES_" + rest}
}

// tracingTable follows OpenTelemetry's own variables, as every program of a fleet is
// told of its collector by the same ones.
func tracingTable() []setting {
	return append(collectorTable(), spanTable()...)
}

func collectorTable() []setting {
	return []setting{
		{
			key: "tracing.endpoint", variables: []string{otelEndpoint}, kind: httpURL(), used: daemon(),
			doc: "Base URL of a collector that takes OTLP over HTTP, such as http://collector:4318; /v1/traces is added. Empty: nothing is traced.",
		},
		{
			key: "tracing.traces_endpoint", variables: []string{otelTracesEndpoint}, kind: httpURL(), used: daemon(),
			doc: "The whole URL for traces, taken as it is; wins over tracing.endpoint.",
		},
		{
			key: "tracing.exporter", variables: []string{otelExporter}, kind: choice("otlp", "none"), initial: "otlp", used: daemon(),
			doc: "none turns tracing off whatever else is set, and so does OTEL_SDK_DISABLED=true.",
		},
		{
			key: "tracing.protocol", variables: ofTraces("PROTOCOL"), kind: choice("http/protobuf"), initial: "http/protobuf", used: daemon(),
			doc: "The one protocol that is spoken. A collector listens for it on port 4318 as a rule, and for gRPC on 4317.",
		},
		{
			key: "tracing.headers", variables: ofTraces("HEADERS"), kind: pairs(), secret: true, used: daemon(),
			doc: "Headers of each request to the collector, as name=value,name=value with values in percent-encoding.",
		},
		{
			key: "tracing.headers_file", kind: secretFile(), used: daemon(),
			doc: "File that holds such headers; read again for each request.",
		},
		{
			key: "tracing.timeout", variables: ofTraces("TIMEOUT"), kind: millis("100ms", "1m"), initial: "10s", used: daemon(),
			doc: "Longest time in which one batch of spans is delivered, tries included; a bare number is milliseconds. Then it is dropped.",
		},
		{
			key: "tracing.compression", variables: ofTraces("COMPRESSION"), kind: choice("none", "gzip"), initial: "none", used: daemon(),
			doc: "Compression of requests to the collector.",
		},
		{
			key: "tracing.certificate", variables: ofTraces("CERTIFICATE"), kind: text(0, 4096), used: daemon(),
			doc: "File of PEM certificates that a collector over https is trusted by, in place of the public ones.",
		},
	}
}

func spanTable() []setting {
	return []setting{
		{
			key: "tracing.sampler", variables: []string{"OTEL_TRACES_SAMPLER"}, initial: "parentbased_always_on", used: daemon(),
			kind: choice("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio"),
			doc:  "What is recorded. parentbased: what a producer's sampled flag says, and the rest of the word where no flag came in.",
		},
		{
			key: "tracing.sampler_arg", variables: []string{"OTEL_TRACES_SAMPLER_ARG"}, kind: ratio(), initial: "1", used: daemon(),
			doc: "Part of the traces that traceidratio records.",
		},
		{
			key: "tracing.propagators", variables: []string{"OTEL_PROPAGATORS"}, kind: propagators(), initial: "tracecontext", used: daemon(),
			doc: "tracecontext must be among them; it is the one that is spoken.",
		},
		{
			key: "tracing.service_name", variables: []string{"OTEL_SERVICE_NAME"}, kind: text(0, 200), used: daemon(),
			doc: "Name of the service in traces; empty: the program's.",
		},
		{
			key: "tracing.resource_attributes", variables: []string{"OTEL_RESOURCE_ATTRIBUTES"}, kind: pairs(), used: daemon(),
			doc: "Further attributes of the process, as name=value,name=value.",
		},
		{
			key: "tracing.queue", variables: []string{"OTEL_BSP_MAX_QUEUE_SIZE"}, kind: integer(1, 100000), initial: "2048", used: daemon(),
			doc: "Ended spans that wait for the collector at most; others are dropped and counted.",
		},
		{
			key: "tracing.batch", variables: []string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}, kind: integer(1, 10000), initial: "512", used: daemon(),
			doc: "Spans of one request to the collector at most.",
		},
		{
			key: "tracing.delay", variables: []string{"OTEL_BSP_SCHEDULE_DELAY"}, kind: millis("10ms", "1m"), initial: "5s", used: daemon(),
			doc: "How long an ended span waits for others of its batch; a bare number is milliseconds.",
		},
	}
}
