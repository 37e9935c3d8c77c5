package main

import (
	"context"
	"slices"

	"briefrail/internal/audit"
	"briefrail/internal/config"
	"briefrail/internal/nudge"
)

// leg is a part of the way that a nudge takes, as far as it is configured.
type leg struct {
	check string // what is unknown where it cannot be looked at
	look  func(context.Context) ([]nudge.Finding, error)
}

// legs are those parts of the way that are in use. A queue that another leg has looked
// at already is not looked at again.
func legs(cfg *config.Config) (out []leg) {
	queue, source := "", cfg.Trigger.Source == "sqs"
	if source {
		queue = cfg.Trigger.QueueURL
	}
	bus, straight := slices.Contains(cfg.Relay.Sinks, "eventbridge"), slices.Contains(cfg.Relay.Sinks, "sqs")
	if bus {
		out = append(out, leg{nudge.CheckBus, func(ctx context.Context) ([]nudge.Finding, error) { return lookBus(ctx, cfg, queue) }})
	}
	if source && !bus {
		out = append(out, leg{nudge.CheckQueue, func(ctx context.Context) ([]nudge.Finding, error) { return lookQueue(ctx, cfg, queue) }})
	}
	if straight && cfg.Relay.QueueURL != queue {
		out = append(out, leg{nudge.CheckQueue, func(ctx context.Context) ([]nudge.Finding, error) { return lookQueue(ctx, cfg, cfg.Relay.QueueURL) }})
	}
	return out
}

func lookBus(ctx context.Context, cfg *config.Config, queue string) ([]nudge.Finding, error) {
	b, err := nudge.NewEventBridge(ctx, nudge.EventBridgeOptions{
		Bus: cfg.Relay.EventBus, Source: cfg.Relay.EventSource, Queue: queue, Region: cfg.AWS.Region, Endpoint: cfg.AWS.Endpoint,
	})
	if err != nil {
		return nil, err
	}
	return b.Preflight(ctx)
}

func lookQueue(ctx context.Context, cfg *config.Config, url string) ([]nudge.Finding, error) {
	q, err := nudge.NewQueue(ctx, nudge.QueueOptions{Queue: url, Region: cfg.AWS.Region, Endpoint: cfg.AWS.Endpoint})
	if err != nil {
		return nil, err
	}
	return q.Preflight(ctx)
}

// diagnoseWay looks along the way of the nudges. That AWS does not answer is a finding:
// what the database said is shown all the same.
func diagnoseWay(ctx context.Context, cfg *config.Config) (out []audit.Diagnosis) {
	for _, l := range legs(cfg) {
		findings, err := l.look(ctx)
		unseen := false
		for _, f := range findings {
			out = append(out, diagnosis(f))
			unseen = unseen || f.State == nudge.Unknown
		}
		if err != nil && !unseen {
			out = append(out, audit.Diagnosis{
				Check: l.check, State: audit.Unknown, Text: "cannot be looked at: " + err.Error(),
				Advice: "look at aws.region, aws.endpoint and the credentials",
			})
		}
	}
	return out
}

// diagnosis says a finding in the doctor's words; both have the same states.
func diagnosis(f nudge.Finding) audit.Diagnosis {
	state := audit.Unknown
	switch f.State {
	case nudge.OK:
		state = audit.OK
	case nudge.Warn:
		state = audit.Warn
	case nudge.Fail:
		state = audit.Fail
	case nudge.Unknown:
	}
	return audit.Diagnosis{Check: f.Check, State: state, Text: f.Text + " (" + f.Resource + ")", Advice: f.Advice}
}
