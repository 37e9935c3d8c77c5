package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"briefrail/internal/authority"
	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

const shadowHelp = `Have the build service build what the rail would have landed for each imported Brief of
the scope, compare the two, and store how that went. It has no effect but that, may be
ended and repeated, and goes on where it was. Without --builder the last comparisons
are summed up again.

--rules is a YAML file that explains what may differ, each with a name under which its
scenario is tested:

  - {name: legacy_format, class: representation, path: format}
  - {name: no_assertions, class: legacy_unsupported, path: assertions.**}

path is the keys from the root, joined by dots; * stands for one, ** at the end for any
number. class is representation, legacy_unsupported, projection_lag or migration_defect.
A difference that no rule explains, or a migration_defect, keeps the scope from closing.

--sources names the member that lists what a Brief was made from. Where the two sides
were made from something else, because the record has moved on, whatever differs is
projection_lag.`

// compared is the answer of shadow.
type compared struct {
	authority.Change
	Classes []authority.ShadowClass `json:"classes"`
	DryRun  bool                    `json:"dry_run"`
}

func (a *app) authorityShadow() *cobra.Command {
	var builder, rules, sources string
	var timeout time.Duration
	cmd := &cobra.Command{Use: "shadow CHANGE", Short: "Build in the shadow and compare with what the old writer decided", Long: shadowHelp, Args: cobra.ExactArgs(1)}
	fs := cmd.Flags()
	fs.StringVar(&builder, "builder", "", "`URL` of the build service")
	fs.DurationVar(&timeout, "builder-timeout", 10*time.Minute, "longest time for one build")
	fs.StringVar(&rules, "rules", "", "`file` of rules that explain differences")
	fs.StringVar(&sources, "sources", "", "`member` of a Brief that lists what it was made from")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		id, err := changeID(args[0])
		if err != nil {
			return err
		}
		o := authority.ShadowOptions{}
		if o.Rules, err = readRules(rules); err != nil {
			return err
		}
		if builder != "" {
			b, err := newShadowBuilder(builder, timeout)
			if err != nil {
				return err
			}
			o = b.options(o.Rules, sources)
		}
		return s.shadow(ctx, c, act, id, o)
	})
	return cmd
}

func (s *session) shadow(ctx context.Context, c *change, act jobs.Actor, id rail.UUID, o authority.ShadowOptions) error {
	out := compared{DryRun: c.dryRun}
	var err error
	if c.dryRun {
		o.Build = nil // what it builds it keeps, each in a transaction of its own
		err = s.govern(ctx, c, act, func(ctl authority.Controller) (err error) {
			out.Change, out.Classes, err = ctl.Shadow(ctx, id, o)
			return err
		})
	} else {
		w := s.working("building in the shadow")
		out.Change, out.Classes, err = s.controller(act).Shadow(ctx, id, o)
		w.end()
	}
	if err != nil {
		return err
	}
	out.Classes = list(out.Classes)
	return s.show(view{kind: "authority.shadow", data: out, names: []string{id.String()}, table: func(p *page) {
		p.row("Change", id)
		p.row("Phase", out.Phase)
		p.section("How the two sides compare")
		p.row("DIFFERENCE", "RULE", "MATTERS")
		for _, x := range out.Classes {
			p.row(x.Difference, x.Rule, x.Matters)
		}
	}})
}

// readRules reads a file of rules; no file, no rules.
func readRules(path string) ([]authority.Rule, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fail(exitUsage, "--rules: %w", err)
	}
	var rules []authority.Rule
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return nil, fail(exitUsage, "--rules %s: %w", path, err)
	}
	classes := []string{authority.Representation, authority.LegacyUnsupported, authority.ProjectionLag, authority.MigrationDefect}
	for _, r := range rules {
		if r.Name == "" || r.Path == "" || !slices.Contains(classes, r.Class) {
			return nil, fail(exitUsage, "--rules %s: rule %q needs a name, a path, and a class: %s", path, r.Name, strings.Join(classes, ", "))
		}
	}
	return rules, nil
}

// shadowBuilder asks the build service for frames that nobody lands.
type shadowBuilder struct {
	service runs.Builder
	timeout time.Duration
}

func newShadowBuilder(url string, timeout time.Duration) (*shadowBuilder, error) {
	if timeout <= 0 {
		return nil, fail(exitUsage, "--builder-timeout must be positive")
	}
	service, err := runs.NewHTTP(runs.HTTPOptions{URL: url, Timeout: timeout, MaxFrameBytes: frames.HardMax})
	if err != nil {
		return nil, fail(exitUsage, "--builder: %w", err)
	}
	return &shadowBuilder{service, timeout}, nil
}

// build makes one frame under a run that is written down nowhere.
func (b *shadowBuilder) build(ctx context.Context, k rail.Key) (authority.ShadowFrame, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	f, _, err := b.service.Build(ctx, runs.Request{
		Key: k, Token: rail.Token{Generation: 1, Run: rail.NewUUID()}, Attempt: 1, Deadline: time.Now().Add(b.timeout),
	})
	if err != nil {
		return authority.ShadowFrame{}, err
	}
	checked, err := frames.Check(f.JSON, frames.HardMax)
	if err != nil {
		return authority.ShadowFrame{}, fmt.Errorf("the build service's frame: %w", err)
	}
	return authority.ShadowFrame{JSON: f.JSON, Digest: checked.Digest, SchemaVersion: f.SchemaVersion, Builder: f.BuilderVersion}, nil
}

// options put the builder and the rules together. sources, where it is given, is the
// member that tells whether both sides were made from the same record.
func (b *shadowBuilder) options(rules []authority.Rule, sources string) authority.ShadowOptions {
	o := authority.ShadowOptions{Build: b.build, Rules: rules}
	if sources != "" {
		o.Lag = func(imported, built []byte) (bool, error) {
			before, err := sourcesIn(imported, sources)
			if err != nil {
				return false, err
			}
			after, err := sourcesIn(built, sources)
			return before != after, err
		}
	}
	return o
}

func sourcesIn(frame []byte, member string) (string, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(frame, &f); err != nil {
		return "", errors.New("a frame is no object")
	}
	if f[member] == nil {
		return "", nil
	}
	checked, err := frames.Check([]byte(`{"s":`+string(f[member])+`}`), frames.HardMax)
	return string(checked.Digest[:]), err
}
