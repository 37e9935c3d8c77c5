package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"briefrail/internal/config"
)

type pair struct {
	Name, Value, ValueFrom string
}

// container is one of a task definition, as ECS reads it.
type container struct {
	Name, User             string
	Command                []string
	ReadonlyRootFilesystem bool
	Privileged             bool
	StopTimeout            int
	LinuxParameters        struct {
		Capabilities struct{ Drop []string }
	}
	PortMappings []struct{ ContainerPort int }
	HealthCheck  *struct {
		Command                                 []string
		Interval, Timeout, Retries, StartPeriod int
	}
	Environment, Secrets []pair
}

// environment is the container's. A secret comes as a variable: Fargate mounts none.
func (c container) environment() environment {
	e := environment{vars: map[string]string{}}
	for _, v := range c.Environment {
		e.vars[v.Name] = v.Value
	}
	for _, s := range c.Secrets {
		e.vars[s.Name] = "postgres://somebody@database/rail"
	}
	return e
}

func taskDefinition(t *testing.T, file string) (c container, memory int) {
	t.Helper()
	var task struct {
		Memory               json.Number
		ContainerDefinitions []container
	}
	parse(t, file, json.Unmarshal, &task)
	if len(task.ContainerDefinitions) != 1 {
		t.Fatalf("%s: %d containers", file, len(task.ContainerDefinitions))
	}
	n, err := task.Memory.Int64()
	if err != nil {
		t.Fatalf("%s: memory: %v", file, err)
	}
	return task.ContainerDefinitions[0], int(n)
}

// ECS and the programs mean the same: variables that are known, a grace that is long
// enough, and a health check that the image has.
func TestTaskDefinitions(t *testing.T) {
	t.Parallel()
	for _, file := range filesOf(t, "ecs/*.task.json") {
		c, memory := taskDefinition(t, file)
		program := config.Component(c.Name)
		cfg := c.environment().settings(t, file, program)
		if c.User != "65532:65532" || !c.ReadonlyRootFilesystem || c.Privileged || !slices.Equal(c.LinuxParameters.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: the container may do more than it needs", file)
		}
		if len(c.Secrets) != 1 || !strings.Contains(c.Secrets[0].ValueFrom, ":secretsmanager:") {
			t.Errorf("%s: secrets %v", file, c.Secrets)
		}
		if want := memoryLimit(memory); c.environment().vars["GOMEMLIMIT"] != want {
			t.Errorf("%s: GOMEMLIMIT %s, want %s", file, c.environment().vars["GOMEMLIMIT"], want)
		}
		if program == config.Control {
			if !slices.Equal(c.Command, []string{"migrate", "up"}) {
				t.Errorf("%s: %v", file, c.Command)
			}
			continue
		}
		checkService(t, file, c, cfg)
	}
}

// checkService wants what a task that runs for ever needs. Fargate gives 120 s at most,
// and replaces a task that is unhealthy: the check asks whether the program is alive, as
// an outage of the database is no reason to replace anything.
func checkService(t *testing.T, file string, c container, cfg *config.Config) {
	t.Helper()
	if grace := time.Duration(c.StopTimeout) * time.Second; grace > 120*time.Second || grace < leastGrace(cfg) {
		t.Errorf("%s: stopTimeout %s, the program may need %s", file, grace, leastGrace(cfg))
	}
	if !slices.Equal(c.Command, []string{"run"}) || len(c.PortMappings) != 1 || port(cfg.Admin.Listen) != port(defaults(t, cfg.Component()).Admin.Listen) {
		t.Errorf("%s: command %v, ports %v", file, c.Command, c.PortMappings)
	}
	h := c.HealthCheck
	if h == nil || !slices.Equal(h.Command, []string{"CMD", "/" + c.Name, "healthcheck", "--live"}) {
		t.Fatalf("%s: health check %+v", file, h)
	}
	if h.Interval*h.Retries < 60 || h.Interval*h.Retries > 300 || h.Retries > 10 || h.StartPeriod > 300 {
		t.Errorf("%s: the health check gives up after %d s", file, h.Interval*h.Retries)
	}
}

// memoryLimit is 90 % of a limit in MiB, as GOMEMLIMIT has it.
func memoryLimit(mib int) string { return fmt.Sprintf("%dMiB", mib*9/10) }

func TestServices(t *testing.T) {
	t.Parallel()
	for _, file := range filesOf(t, "ecs/*.service.json") {
		var s struct {
			ServiceName, TaskDefinition string
			DesiredCount                int
			DeploymentConfiguration     struct {
				MinimumHealthyPercent    int
				DeploymentCircuitBreaker struct{ Enable, Rollback bool }
			}
		}
		parse(t, file, json.Unmarshal, &s)
		d := s.DeploymentConfiguration
		if !d.DeploymentCircuitBreaker.Enable || !d.DeploymentCircuitBreaker.Rollback || d.MinimumHealthyPercent != 100 || s.DesiredCount != 2 {
			t.Errorf("%s: %+v", file, s)
		}
		if _, err := os.Stat(filepath.Join("ecs", s.ServiceName+".task.json")); err != nil || s.TaskDefinition != "rail-"+s.ServiceName {
			t.Errorf("%s: task definition %s: %v", file, s.TaskDefinition, err)
		}
	}
}

// AWS's own command line knows what ECS takes; it checks before it calls, and here it
// calls nobody.
func TestTaskDefinitionsAreECSs(t *testing.T) {
	t.Parallel()
	aws, err := exec.LookPath("aws")
	if err == nil {
		err = exec.CommandContext(t.Context(), aws, "--version").Run()
	}
	if err != nil {
		t.Skipf("aws (its command line, version 1 or 2) is not in PATH: task definitions are read, and not held to ECS's own model: %v", err)
	}
	for _, file := range filesOf(t, "ecs/*.task.json") {
		cmd := exec.CommandContext(t.Context(), aws, "ecs", "register-task-definition", "--cli-input-json", "file://"+file, "--generate-cli-skeleton", "output")
		cmd.Env = append(os.Environ(), "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
			"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
