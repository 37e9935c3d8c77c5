package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/config"
	"briefrail/internal/telemetry/tracing"
)

// flushLimit bounds what a stop waits for the last spans: it comes after the work's
// own grace and has to fit beside it.
const flushLimit = 3 * time.Second

// Trace starts to trace where a collector is configured; FlushTraces must follow.
func Trace(ctx context.Context, cfg *config.Config, version, name string, reg prometheus.Registerer, log *slog.Logger) (*tracing.Tracing, error) {
	c := cfg.Tracing
	attributes, err := config.Pairs(c.ResourceAttributes)
	if err != nil {
		return nil, fmt.Errorf("%w: tracing.resource_attributes: %w", config.ErrInvalid, err)
	}
	service := c.ServiceName
	if service == "" {
		service = string(cfg.Component())
	}
	t, err := tracing.Start(ctx, reg, tracing.Options{
		URL: c.URL(), Headers: c.HeaderPairs, Timeout: c.Timeout, Gzip: c.Compression == "gzip", Certificate: c.Certificate,
		Sampler: c.Sampler, Ratio: c.SamplerArg, Service: service, Version: version, Instance: name, Resource: attributes,
		Queue: c.Queue, Batch: c.Batch, Delay: c.Delay, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	return t, nil
}

// FlushTraces delivers the last spans, also when ctx has ended, and not for long.
func FlushTraces(ctx context.Context, t *tracing.Tracing) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	t.Stop(ctx)
}
