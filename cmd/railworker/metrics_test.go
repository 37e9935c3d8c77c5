package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/cmd/internal/daemon"
	"briefrail/cmd/internal/daemon/daemontest"
	"briefrail/internal/config"
)

// Rules, boards and people go by docs/METRICS.md.
func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	daemontest.Metrics(t, config.Worker, []string{
		"RAIL_BUILDER_HTTP_URL=http://127.0.0.1:1/", "RAIL_TRIGGER_SOURCE=sqs", "RAIL_TRIGGER_QUEUE_URL=http://127.0.0.1:1/000000000000/brief",
	}, func(ctx context.Context, pools daemon.Pools, cfg *config.Config, reg *prometheus.Registry, log *slog.Logger) error {
		return (&worker{name: "test", pools: pools}).equip(ctx, cfg, reg, log)
	})
}
