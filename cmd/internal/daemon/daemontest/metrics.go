// Package daemontest holds a program to docs/METRICS.md as it puts itself together.
//
// It serves tests only and owns nothing.
package daemontest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
	"briefrail/internal/telemetry"
	"briefrail/internal/telemetry/telemetrytest"
)

// Equip is a program's own step of that name, over pools that are open.
type Equip func(ctx context.Context, pools daemon.Pools, cfg *config.Config, reg *prometheus.Registry, log *slog.Logger) error

// Metrics equips a program with the given settings, its database away and no page of
// its own, and compares what it registers with the document.
func Metrics(t *testing.T, c config.Component, settings []string, equip Equip) {
	t.Helper()
	cfg, err := config.Load(config.Source{Component: c, Env: append([]string{
		"RAIL_DATABASE_URL=postgres://rail@127.0.0.1:1/none", "RAIL_ADMIN_LISTEN=off", "RAIL_AWS_REGION=us-east-1",
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	reg := telemetry.NewRegistry(telemetry.Version("test", string(c)))
	pools, err := daemon.Open(t.Context(), cfg, "test", reg)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if err := equip(t.Context(), pools, cfg, reg, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	telemetrytest.Hold(t, string(c), reg)
}
