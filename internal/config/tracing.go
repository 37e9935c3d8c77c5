package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TracingSettings say where traces go. Without an endpoint nothing is traced.
// Headers and ResourceAttributes are lists of name=value, read by Pairs.
type TracingSettings struct {
	Endpoint           string        `mapstructure:"endpoint"`
	TracesEndpoint     string        `mapstructure:"traces_endpoint"`
	Exporter           string        `mapstructure:"exporter"`
	Protocol           string        `mapstructure:"protocol"`
	Headers            string        `mapstructure:"headers"`
	HeadersFile        SecretFile    `mapstructure:"headers_file"`
	Timeout            time.Duration `mapstructure:"timeout"`
	Compression        string        `mapstructure:"compression"`
	Certificate        string        `mapstructure:"certificate"`
	Sampler            string        `mapstructure:"sampler"`
	SamplerArg         float64       `mapstructure:"sampler_arg"`
	Propagators        string        `mapstructure:"propagators"`
	ServiceName        string        `mapstructure:"service_name"`
	ResourceAttributes string        `mapstructure:"resource_attributes"`
	Queue              int           `mapstructure:"queue"`
	Batch              int           `mapstructure:"batch"`
	Delay              time.Duration `mapstructure:"delay"`
}

// URL is where traces are sent, or "" where nothing is traced.
func (t TracingSettings) URL() string {
	switch {
	case t.Exporter == "none":
		return ""
	case t.TracesEndpoint != "":
		return t.TracesEndpoint
	case t.Endpoint == "":
		return ""
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil {
		return "" // unreachable: its kind has parsed it
	}
	return u.JoinPath("v1", "traces").String()
}

// HeaderPairs returns the headers of the next request.
func (t TracingSettings) HeaderPairs() ([][2]string, error) {
	text := t.Headers
	if t.HeadersFile != "" {
		var err error
		if text, err = t.HeadersFile.Read(); err != nil {
			return nil, err
		}
	}
	return Pairs(text)
}

// Pairs reads name=value,name=value as OpenTelemetry's variables have it, with
// values in percent-encoding. Its errors do not quote the text.
func Pairs(s string) (out [][2]string, err error) {
	for part := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		value, bad := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || bad != nil {
			return nil, errors.New("is no list of name=value")
		}
		if strings.ContainsFunc(name+value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, errors.New("holds a control character")
		}
		out = append(out, [2]string{name, value})
	}
	return out, nil
}

func pairs() kind {
	return kind{name: "text", want: "name=value,name=value", parse: ofText(func(s string) (any, error) {
		_, err := Pairs(s)
		return s, err
	})}
}

// millis is a duration that may also be written as OpenTelemetry does: a bare number
// of milliseconds.
func millis(least, most string) kind {
	k := duration(least, most)
	withUnit := k.parse
	k.want += ", or a whole number of milliseconds"
	k.parse = func(r raw) (any, error) {
		if r.form == scalar && decimal(r.text) {
			r.text += "ms"
		}
		return withUnit(r)
	}
	return k
}

func ratio() kind {
	return kind{name: "number", want: "a number from 0 to 1", bounds: "0 to 1", parse: ofText(func(s string) (any, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return nil, errors.New("is not between 0 and 1")
		}
		return f, nil
	})}
}

func propagators() kind {
	return kind{name: "text", want: "a list with tracecontext in it", parse: ofText(func(s string) (any, error) {
		words := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		if !slices.Contains(words, "tracecontext") {
			return nil, errors.New("leaves out the one that is spoken")
		}
		return s, nil
	})}
}

// withoutTraces drops OpenTelemetry's variables where they turn tracing off or name
// no collector, and for programs that trace nothing: they are set for every program
// of a machine, and what they say of others is no mistake of ours.
func (env environment) withoutTraces(src Source, file map[string]layer) {
	off := env[otelExporter] == "none" || strings.EqualFold(env[otelDisabled], "true") || src.Component == Control
	named := env[otelEndpoint] != "" || env[otelTracesEndpoint] != ""
	for _, key := range []string{"tracing.endpoint", "tracing.traces_endpoint"} {
		_, inFile := file[key]
		_, asFlag := changedFlag(src.Flags, setting{key: key}.flag())
		named = named || inFile || asFlag
	}
	for name := range env {
		if strings.HasPrefix(name, otelPrefix) && name != otelExporter && (off || !named) {
			delete(env, name)
		}
	}
	if off && src.Component != Control {
		env[otelExporter] = "none"
	} else if off || !named {
		delete(env, otelExporter)
	}
}

// refuseClientCertificates says of the variables that would matter and are not
// followed that they are not. What else OpenTelemetry knows is about other signals,
// other languages, or limits that the rail keeps by itself.
func (env environment) refuseClientCertificates(ps *problems) {
	for _, name := range slices.Concat(ofTraces("CLIENT_CERTIFICATE"), ofTraces("CLIENT_KEY")) {
		if env[name] != "" {
			ps.add(Problem{
				Key: name, Origin: "environment", Fault: "is not followed: no client certificate is shown to a collector",
				Want: "remove it, and use tracing.headers_file or a collector beside this program",
			})
		}
	}
}
