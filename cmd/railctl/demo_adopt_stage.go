package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"briefrail/deploy"
	"briefrail/internal/pg"
)

// The pace of the story: builds are short, as there are many.
const (
	adoptBuild   = 80 * time.Millisecond
	adoptBuckets = 6 // that cross in front of the audience
	adoptMatters = 3 // in each of them, and in each of as many others
)

func findAdoptPrograms() (map[string]string, error) {
	found, err := findPrograms(demoLedger)
	if err != nil {
		return nil, err
	}
	found["legacy"] = filepath.Join(filepath.Dir(found["railctl"]), "legacy")
	if _, err := os.Stat(found["legacy"]); err != nil {
		return nil, fail(exitUsage, "legacy is not beside railctl: make demo-adopt builds it from examples/legacy, and starts from there")
	}
	return found, nil
}

// raise starts everything but the crowd.
func (d *adopting) raise(ctx context.Context) (err error) {
	st, s := d.stage, d.screen
	if st.dir, err = os.MkdirTemp("", "briefrail-adopt-"); err != nil {
		return fmt.Errorf("folder of the demo: %w", err)
	}
	if err := st.startDatabase(ctx, s); err != nil {
		return err
	}
	if err := st.migrate(ctx, s); err != nil {
		return err
	}
	d.admin = []string{"RAIL_DATABASE_URL=" + st.dsn, "USER=demo"}
	if err := d.legacyTables(ctx); err != nil {
		return err
	}
	if d.people, err = newCrowd(ctx, st.pool, st.as("rail_worker")); err != nil {
		return err
	}
	for _, scope := range d.people.scopes() {
		d.rest[scope] = true
	}
	if err := os.WriteFile(filepath.Join(st.dir, "rules.yaml"), []byte(adoptRules), 0o600); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return d.startPrograms(ctx)
}

// adoptRules explain what the old worker does otherwise than the rail's builder.
const adoptRules = `
- {name: format_of_its_own, class: representation, path: format}
- {name: no_assertions, class: legacy_unsupported, path: assertions}
- {name: no_count_of_assertions, class: legacy_unsupported, path: counts.assertions}
`

// The application's own trigger: whoever stores a document sets the boolean, in the
// same transaction as the fact.
const applicationSQL = `
CREATE FUNCTION legacy.document_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO legacy.matters AS m (matter_id, firm_id) VALUES (NEW.matter_id, NEW.firm_id)
  ON CONFLICT (matter_id) DO UPDATE SET needs_rebuild = true, asked_at = clock_timestamp();
  RETURN NULL;
END $$;
CREATE TRIGGER legacy_document AFTER INSERT ON record.documents FOR EACH ROW EXECUTE FUNCTION legacy.document_came();`

func (d *adopting) legacyTables(ctx context.Context) (err error) {
	conn, err := pg.Connect(ctx, pg.Options{DSN: d.stage.dsn, ApplicationName: "railctl demo-adopt"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, deploy.Roles); err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	out, err := d.legacyVerb(ctx, d.stage.dsn, "migrate")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_, err = conn.Exec(ctx, applicationSQL)
	return err
}

// legacyVerb runs a verb of the old worker's program that ends by itself.
func (d *adopting) legacyVerb(ctx context.Context, dsn string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.stage.programs["legacy"], args...)
	cmd.Env = append(cleanEnv(os.Environ()), "LEGACY_DATABASE_URL="+dsn)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// as is the connection string of another role.
func (st *stage) as(role string) string {
	u, err := url.Parse(st.dsn)
	if err != nil {
		return st.dsn // it is our own
	}
	u.User = url.User(role)
	return u.String()
}

func (d *adopting) startPrograms(ctx context.Context) (err error) {
	st, s := d.stage, d.screen
	s.status("starting the build service, the rail's worker, the old worker and its bridge")
	st.builder, err = st.start(ctx, "build service", "brief-builder", []string{"serve", "--listen", "127.0.0.1:0", "--delay", adoptBuild.String()}, "BRIEF_DATABASE_URL="+st.dsn)
	if err != nil {
		return err
	}
	worker, err := st.start(ctx, "rail", "railworker", []string{"run"}, append(st.workerEnv("rail"),
		"RAIL_DATABASE_URL="+st.as("rail_worker"), "RAIL_SETTLE_QUIET=300ms")...)
	if err != nil {
		return err
	}
	st.workers = append(st.workers, worker)
	d.legacy, err = st.start(ctx, "work", "legacy", []string{"work"},
		"LEGACY_DATABASE_URL="+st.as("legacy_worker"), "LEGACY_BUILDER_URL=http://"+st.builder.listen+"/v1/build")
	if err != nil {
		return err
	}
	st.workers = append(st.workers, d.legacy)
	s.fact("programs", "the rail's worker (process %d, role rail_worker), the old worker (process %d, role legacy_worker), one build service (process %d)",
		worker.pid(), d.legacy.pid(), st.builder.pid())
	return nil
}

// startBridge waits until its role may import.
func (d *adopting) startBridge(ctx context.Context) (err error) {
	st := d.stage
	d.bridge, err = st.start(ctx, "bridge", "legacy", []string{"bridge"}, "LEGACY_DATABASE_URL="+st.as("legacy_bridge"))
	if err == nil {
		st.workers = append(st.workers, d.bridge)
	}
	return err
}

// dismiss ends a program for good: from then on nobody minds that it is gone.
func (d *adopting) dismiss(p *process) error {
	kept := d.stage.workers[:0]
	for _, w := range d.stage.workers {
		if w != p {
			kept = append(kept, w)
		}
	}
	d.stage.workers = kept
	return p.stop()
}
