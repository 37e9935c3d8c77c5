package containers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// made are our images, built from this checkout once a run of the tests.
var made = sync.OnceValue(func() error {
	_, err := command(context.Background(), nil, filepath.Join(root, "scripts", "images"))
	return err
})

func ours(t *testing.T) {
	t.Helper()
	if err := made(); err != nil {
		t.Fatal(err)
	}
}

// theirs are settings that name images of PostgreSQL and Prometheus: those of the
// environment, or, as nothing may be there to pull, those of Debian's packages.
var theirs = sync.OnceValues(func() ([]string, error) {
	if os.Getenv("POSTGRES_IMAGE") != "" && os.Getenv("PROMETHEUS_IMAGE") != "" {
		return nil, nil
	}
	// a mirror that does not answer must not hold a gate up; timeout ends children too
	out, err := command(context.Background(), nil, "timeout", "--kill-after=10", "300", filepath.Join(root, "scripts", "debian-base"))
	return strings.Fields(out), err
})

// stack is one project of Compose.
type stack struct {
	t       *testing.T
	project string
	compose []string // the command and what precedes the verb
	env     []string
	secrets string
	watch   string // address of Prometheus
	pool    *pgxpool.Pool
}

// lease is longer than a busy machine keeps a renewal waiting.
const lease = 8 * time.Second

// quick are settings under which things happen within seconds.
func quick() map[string]string {
	return map[string]string{
		"BRIEF_DELAY": "6s", "RAIL_LEASE_DURATION": lease.String(), "RAIL_SETTLE_QUIET": "300ms", "RAIL_RETRY_BACKOFF": "300ms",
		"RAIL_WORKER_STOP_GRACE": "1s", "RAIL_TRIGGER_GRACE": "3s", "RAIL_RELAY_BACKOFF_MAX": "2s",
	}
}

// projects is what the name of everything begins with that these tests make;
// scripts/test-containers removes by it what they may have left.
func projects() string { return cmp.Or(os.Getenv("RAIL_TEST_PROJECT"), "railtest") }

// start brings a stack up, and removes all of it with the test.
func start(t *testing.T, settings map[string]string, args ...string) *stack {
	t.Helper()
	need(t)
	compose := composing(t)
	images, err := theirs()
	if err != nil {
		t.Skipf("neither POSTGRES_IMAGE and PROMETHEUS_IMAGE are set nor can they be made from Debian's packages: %v", err)
	}
	ours(t)
	dir := t.TempDir()
	s := &stack{t: t, project: projects() + strings.ToLower(rand.Text()[:8]), secrets: filepath.Join(dir, "secrets")}
	s.compose = append(compose, "--project-name", s.project, "--file", filepath.Join(root, "deploy", "compose", "docker-compose.yml"))
	common := slices.Concat(images, []string{"COMPOSE_PROFILES=watch", "SECRETS=" + s.secrets, "RULES=" + hastyRules(t, dir), "PROMETHEUS_CONFIG=" + hastyPrometheus(t, dir)})
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		common = append(common, name+"="+settings[name])
	}
	if _, err := command(t.Context(), nil, filepath.Join(root, "deploy", "compose", "secrets"), s.secrets); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	asked := time.Now()
	s.up(common, args)
	s.settled()
	t.Logf("%s is up after %.1f s", s.project, time.Since(asked).Seconds())
	return s
}

// up starts everything on ports that were free a moment ago; when somebody took one since,
// on others.
func (s *stack) up(common, args []string) {
	s.t.Helper()
	for try := range 4 {
		database, watch := unused(s.t), unused(s.t)
		s.watch = "127.0.0.1:" + watch
		s.env = append(slices.Clone(common), "POSTGRES_PORT="+database, "PROMETHEUS_PORT="+watch, "AWS_PORT="+unused(s.t))
		_, err := s.run(append([]string{"up", "--detach"}, args...)...)
		if err == nil {
			s.connect(database)
			return
		}
		if clash := strings.Contains(err.Error(), "already allocated") || strings.Contains(err.Error(), "already in use"); !clash || try == 3 {
			s.t.Fatal(err)
		}
		s.t.Logf("a port was taken meanwhile: %v", err)
		s.must("down", "--volumes", "--timeout", "3")
	}
}

// remove ends everything; after a failure it says what the containers said.
func (s *stack) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if s.pool != nil {
		s.pool.Close()
	}
	if s.t.Failed() {
		state, _ := command(ctx, nil, "docker", "ps", "--all", "--filter", "label=com.docker.compose.project="+s.project, "--format", "{{.Names}} {{.Status}}")
		logs, _ := command(ctx, s.env, s.compose[0], append(slices.Clone(s.compose[1:]), "logs", "--no-color", "--tail", "15")...)
		s.t.Logf("containers:\n%s\n%s", state, tail(logs, 20_000))
	}
	if _, err := command(ctx, s.env, s.compose[0], append(slices.Clone(s.compose[1:]), "down", "--volumes", "--remove-orphans", "--timeout", "3")...); err != nil {
		s.t.Errorf("the stack is not removed: %v", err)
	}
}

// run runs a verb of Compose.
func (s *stack) run(args ...string) (string, error) {
	return command(s.t.Context(), s.env, s.compose[0], append(slices.Clone(s.compose[1:]), args...)...)
}

// must runs one that has to succeed.
func (s *stack) must(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// ctl runs railctl in a container of its own, as the operator.
func (s *stack) ctl(args ...string) string {
	s.t.Helper()
	return s.must(append([]string{"run", "--rm", "--no-deps", "-T", "railctl"}, args...)...)
}

// on is the stack as a scene of its own sees it: what fails, fails there.
func (s *stack) on(t *testing.T) *stack {
	scene := *s
	scene.t = t
	return &scene
}

// containers are the ids of a service's containers.
func (s *stack) containers(service string) []string {
	s.t.Helper()
	found := strings.Fields(docker(s.t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=com.docker.compose.project="+s.project,
		"--filter", "label=com.docker.compose.service="+service, "--filter", "label=com.docker.compose.oneoff=False"))
	if len(found) == 0 {
		s.t.Fatalf("there is no container of %s", service)
	}
	return found
}

func (s *stack) container(service string) string {
	s.t.Helper()
	return s.containers(service)[0]
}

// state is what docker says of a container.
type state struct {
	Status                string // running, exited, paused
	ExitCode              int
	StartedAt, FinishedAt time.Time
	Health                *struct{ Status string }
}

func (s *stack) state(service string) state {
	s.t.Helper()
	return s.stateOf(s.container(service))
}

func (s *stack) stateOf(container string) (found state) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(docker(s.t, "inspect", "--format", "{{json .State}}", container)), &found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// healthy reports whether a container says that it is well; one without a check runs.
func (s *stack) healthy(container string) bool {
	st := s.stateOf(container)
	return st.Status == "running" && (st.Health == nil || st.Health.Status == "healthy")
}

// connect opens a pool as the superuser, who sees everything.
func (s *stack) connect(port string) {
	s.t.Helper()
	password, err := os.ReadFile(filepath.Join(s.secrets, "postgres"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.pool, err = pgxpool.New(s.t.Context(), fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/rail?sslmode=disable&pool_max_conns=4", password, port))
	if err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until every daemon is ready.
func (s *stack) settled() {
	s.t.Helper()
	for _, service := range []string{"builder", "relay", "worker-a", "worker-b"} {
		for _, container := range s.containers(service) {
			eventually(s.t, patience, service+" is healthy", func() bool { return s.healthy(container) })
		}
	}
}

// cut takes a service off a network; mend brings it back under its name.
func (s *stack) cut(service, network string) {
	s.t.Helper()
	docker(s.t, "network", "disconnect", s.project+"_"+network, s.container(service))
}

func (s *stack) mend(service, network string) {
	s.t.Helper()
	docker(s.t, "network", "connect", "--alias", service, s.project+"_"+network, s.container(service))
}

// unused is a port of 127.0.0.1 that nobody listens on; it stays the container's over its
// restarts, which one that Docker chooses does not.
func unused(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
