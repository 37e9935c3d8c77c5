package main

import (
	"log/slog"
	"testing"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
	"briefrail/internal/telemetry"
	"briefrail/internal/telemetry/telemetrytest"
)

// Rules, boards and people go by docs/METRICS.md.
func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Source{Component: config.Relay, Env: []string{
		"RAIL_DATABASE_URL=postgres://rail@127.0.0.1:1/none", "RAIL_ADMIN_LISTEN=off", "RAIL_RELAY_SINKS=[eventbridge, sqs]",
		"RAIL_RELAY_QUEUE_URL=http://127.0.0.1:1/000000000000/brief", "RAIL_AWS_REGION=us-east-1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	reg := telemetry.NewRegistry(telemetry.Version("test", string(config.Relay)))
	p := &program{}
	if p.pools, err = daemon.Open(t.Context(), cfg, "test", reg); err != nil {
		t.Fatal(err)
	}
	defer p.pools.Close()
	if err := p.equip(t.Context(), cfg, reg, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	telemetrytest.Hold(t, string(config.Relay), reg)
}
