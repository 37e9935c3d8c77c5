package deploy_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"briefrail/internal/config"
	"briefrail/internal/pg/pgtest"
)

// manifest is one of a kept file, as far as it is looked at here.
type manifest struct {
	Kind     string
	Metadata struct {
		Name                string
		Annotations, Labels map[string]string
	}
	Data map[string]string
	Spec yaml.Node
}

func (m manifest) spec(t *testing.T, into any) {
	t.Helper()
	if err := m.Spec.Decode(into); err != nil {
		t.Fatalf("%s %s: %v", m.Kind, m.Metadata.Name, err)
	}
}

// manifests are those of one kept file by kind and name.
func manifests(t *testing.T, file string) map[string]manifest {
	t.Helper()
	all, dec := map[string]manifest{}, yaml.NewDecoder(strings.NewReader(read(t, file)))
	for {
		var m manifest
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
}

type securityContext struct {
	RunAsNonRoot             *bool `yaml:"runAsNonRoot"`
	RunAsUser                int   `yaml:"runAsUser"`
	FSGroup                  int   `yaml:"fsGroup"`
	ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
	Capabilities             struct{ Drop, Add []string }
	SeccompProfile           struct{ Type string } `yaml:"seccompProfile"`
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type podContainer struct {
	Name, Image string
	Args        []string
	Env         []struct{ Name, Value string }
	Ports       []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Resources      struct{ Limits map[string]string }
	Security       securityContext `yaml:"securityContext"`
	LivenessProbe  probe           `yaml:"livenessProbe"`
	ReadinessProbe probe           `yaml:"readinessProbe"`
	StartupProbe   probe           `yaml:"startupProbe"`
	Mounts         []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type pod struct {
	EnableServiceLinks *bool          `yaml:"enableServiceLinks"`
	MountToken         *bool          `yaml:"automountServiceAccountToken"`
	Grace              int            `yaml:"terminationGracePeriodSeconds"`
	Init               []podContainer `yaml:"initContainers"`
	Containers         []podContainer
	Security           securityContext `yaml:"securityContext"`
	Spread             []struct {
		TopologyKey string `yaml:"topologyKey"`
	} `yaml:"topologySpreadConstraints"`
	Volumes []struct{ Name string }
}

// workload is a Deployment or a Job.
type workload struct {
	Replicas *int
	Template struct {
		Metadata struct{ Labels map[string]string }
		Spec     pod
	}
}

// environment is what a container finds, with the files of the chart's config map.
func (c podContainer) environment(data map[string]string) environment {
	e := environment{vars: map[string]string{}, files: map[string]string{}}
	for _, v := range c.Env {
		if e.vars[v.Name] = v.Value; v.Value == "" { // from the pod, or from a secret
			e.vars[v.Name] = "somebody"
		}
	}
	for name, text := range data {
		e.files["/etc/rail/config/"+name] = text
	}
	return e
}

// Whatever runs has no rights that it does not use, and sees no variables of services.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, name := range helmCases() {
		for id, m := range manifests(t, golden(name)) {
			if m.Kind != "Deployment" && m.Kind != "Job" {
				continue
			}
			var w workload
			m.spec(t, &w)
			p := w.Template.Spec
			if p.EnableServiceLinks == nil || *p.EnableServiceLinks || p.MountToken == nil || *p.MountToken {
				t.Errorf("%s, %s: service links or a token of the cluster", name, id)
			}
			if s := p.Security; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser != 65532 || s.FSGroup != 65532 || s.SeccompProfile.Type != "RuntimeDefault" {
				t.Errorf("%s, %s: %+v", name, id, s)
			}
			for _, c := range append(p.Init, p.Containers...) {
				s := c.Security
				if !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
					!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || s.Capabilities.Add != nil || s.SeccompProfile.Type != "RuntimeDefault" {
					t.Errorf("%s, %s, %s: %+v", name, id, c.Name, s)
				}
				checkMounts(t, name+", "+id, p, c)
			}
		}
	}
}

// checkMounts wants every mount to have a volume, every file that a variable names to
// lie below a mount, and GOMEMLIMIT to be what the limit makes it.
func checkMounts(t *testing.T, where string, p pod, c podContainer) {
	t.Helper()
	for _, m := range c.Mounts {
		if !m.ReadOnly || !slices.ContainsFunc(p.Volumes, func(v struct{ Name string }) bool { return v.Name == m.Name }) {
			t.Errorf("%s, %s: mount %+v", where, c.Name, m)
		}
	}
	limit := ""
	for _, v := range c.Env {
		if v.Name == "GOMEMLIMIT" {
			limit = v.Value
		}
		if !mounted.MatchString(v.Value) {
			continue
		}
		under := 0
		for _, m := range c.Mounts {
			if strings.HasPrefix(v.Value, m.MountPath+"/") {
				under++
			}
		}
		if under != 1 {
			t.Errorf("%s, %s: %s is %s, below %d mounts", where, c.Name, v.Name, v.Value, under)
		}
	}
	n, unit := c.Resources.Limits["memory"], 1
	if strings.HasSuffix(n, "Gi") {
		unit = 1024
	}
	if mib, err := strconv.Atoi(strings.TrimRight(n, "GMi")); err != nil || limit != memoryLimit(mib*unit) {
		t.Errorf("%s, %s: GOMEMLIMIT %s of %s", where, c.Name, limit, n)
	}
}

// The daemons of the kept manifests load what they find, listen where the probes and the
// monitor look, and are given the time that a stop may take.
func TestDaemonsOfTheChart(t *testing.T) {
	t.Parallel()
	for _, name := range helmCases() {
		all := manifests(t, golden(name))
		for program, replicas := range map[config.Component]int{config.Worker: 0, config.Relay: 2} {
			m, there := all["Deployment rail-"+string(program)]
			if !there {
				if program == config.Worker || name == "full" {
					t.Errorf("%s: there is no %s", name, program)
				}
				continue
			}
			var w workload
			m.spec(t, &w)
			c := w.Template.Spec.Containers[0]
			where := name + ", " + string(program)
			cfg := c.environment(all["ConfigMap rail"].Data).settings(t, where, program)
			checkDaemon(t, where, c, cfg)
			if grace := time.Duration(w.Template.Spec.Grace) * time.Second; grace < leastGrace(cfg) {
				t.Errorf("%s: %s of grace, the program may need %s", where, grace, leastGrace(cfg))
			}
			if replicas > 0 && (w.Replicas == nil || *w.Replicas != replicas) {
				t.Errorf("%s: replicas %v", where, w.Replicas)
			}
			if w.Template.Metadata.Labels["app.kubernetes.io/component"] != string(program) || len(w.Template.Spec.Spread) != 2 {
				t.Errorf("%s: labels %v, spread %v", where, w.Template.Metadata.Labels, w.Template.Spec.Spread)
			}
		}
	}
}

func checkDaemon(t *testing.T, where string, c podContainer, cfg *config.Config) {
	t.Helper()
	opened := map[string]string{}
	for _, p := range c.Ports {
		opened[p.Name] = strconv.Itoa(p.ContainerPort)
	}
	want := map[string]string{"admin": port(cfg.Admin.Listen)}
	if cfg.API.Listen != "" {
		want["api"] = port(cfg.API.Listen)
	}
	if own := port(defaults(t, cfg.Component()).Admin.Listen); !maps.Equal(opened, want) || want["admin"] != own {
		t.Errorf("%s: ports %v, listens on %v, the program's own is %s", where, opened, want, own)
	}
	for path, p := range map[string]probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe, "/startupz": c.StartupProbe} {
		if p.HTTPGet.Path != path || p.HTTPGet.Port != "admin" {
			t.Errorf("%s: %s is asked at %s %s", where, path, p.HTTPGet.Port, p.HTTPGet.Path)
		}
	}
	// a start waits for a database that is away, and a restart would not bring it back
	if s := c.StartupProbe; s.PeriodSeconds*s.FailureThreshold < 1800 {
		t.Errorf("%s: a start may take %d s", where, s.PeriodSeconds*s.FailureThreshold)
	}
	if cfg.Database.URLFile == "" || !slices.Equal(c.Args, []string{"run"}) {
		t.Errorf("%s: args %v, connection string in a file: %v", where, c.Args, cfg.Database.URLFile != "")
	}
}

// Whoever may reach the interface of intents finds it by a service, and nobody where it
// is off.
func TestInterfaceOfIntentsIsReached(t *testing.T) {
	t.Parallel()
	small, full := manifests(t, golden("small")), manifests(t, golden("full"))
	if _, there := small["Service rail-api"]; there {
		t.Error("a service for what is off")
	}
	var service struct {
		Selector map[string]string
		Ports    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
	}
	full["Service rail-api"].spec(t, &service)
	var policy struct {
		Ingress []struct{ Ports []struct{ Port int } }
	}
	full["NetworkPolicy rail-railworker"].spec(t, &policy)
	var w workload
	full["Deployment rail-railworker"].spec(t, &w)
	if len(service.Ports) != 1 || service.Ports[0].TargetPort != "api" || len(policy.Ingress) != 2 || policy.Ingress[1].Ports[0].Port != service.Ports[0].Port {
		t.Errorf("service %+v, let in %+v", service, policy)
	}
	if diff := cmp.Diff("railworker", service.Selector["app.kubernetes.io/component"]); diff != "" || w.Template.Metadata.Labels["app.kubernetes.io/component"] != "railworker" {
		t.Error(diff)
	}
}

// The migration comes before the pods, with the tool that may do it, and needs nothing
// of the chart.
func TestMigrationIsAHook(t *testing.T) {
	t.Parallel()
	all := manifests(t, golden("full"))
	m := all["Job rail-migrate"]
	if m.Metadata.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
		t.Errorf("annotations %v", m.Metadata.Annotations)
	}
	var w workload
	m.spec(t, &w)
	var verbs []string
	for _, c := range append(w.Template.Spec.Init, w.Template.Spec.Containers...) {
		verbs = append(verbs, strings.Join(c.Args, " "))
		c.environment(nil).settings(t, "the migration", config.Control)
	}
	if diff := cmp.Diff([]string{"migrate up", "roles apply"}, verbs); diff != "" {
		t.Error(diff)
	}
	if _, there := manifests(t, golden("small"))["Job rail-migrate"]; there {
		t.Error("it cannot be turned off")
	}
}

// What Prometheus gets are the rules themselves, and its targets have the jobs that the
// rules know.
func TestMonitorsOfTheChart(t *testing.T) {
	t.Parallel()
	all := manifests(t, golden("full"))
	var got, want any
	all["PrometheusRule rail-rail"].spec(t, &got)
	parse(t, "prometheus/"+ownRules, yaml.Unmarshal, &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the rules (-file +chart):\n%s", diff)
	}
	var monitor struct {
		JobLabel  string                        `yaml:"jobLabel"`
		Endpoints []struct{ Port, Path string } `yaml:"podMetricsEndpoints"`
	}
	all["PodMonitor rail"].spec(t, &monitor)
	if monitor.JobLabel != "app.kubernetes.io/component" || len(monitor.Endpoints) != 1 || monitor.Endpoints[0].Port != "admin" || monitor.Endpoints[0].Path != "/metrics" {
		t.Errorf("%+v", monitor)
	}
	for _, program := range []config.Component{config.Worker, config.Relay} {
		if !strings.Contains(read(t, "prometheus/"+ownRules), `job="`+string(program)+`"`) {
			t.Errorf("no rule knows job %s", program)
		}
	}
}

// The scaler asks what rail_readonly may ask, is answered with a number, and does not
// count what no worker can build.
func TestScalerAsksForWhatIsOwed(t *testing.T) {
	t.Parallel()
	var scaled struct {
		Min      int `yaml:"minReplicaCount"`
		Triggers []struct{ Metadata map[string]string }
	}
	manifests(t, golden("full"))["ScaledObject rail-railworker"].spec(t, &scaled)
	if scaled.Min < 1 || len(scaled.Triggers) != 1 {
		t.Fatalf("%+v", scaled)
	}
	db := pgtest.New(t)
	db.GrantRoles(t)
	for _, sql := range []string{
		`SELECT ops.operator_demand(array_agg(md5(n::text)::uuid), array_agg(md5(n::text)::uuid), 1::smallint, 'a test', 'to be counted') FROM generate_series(1, 4) n`,
		`SELECT ops.park_matter(md5('4')::uuid, md5('4')::uuid, 'park', 'a test', 'not to be counted')`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	readonly := db.PoolAs(t, "rail_readonly")
	var owed int
	if err := readonly.QueryRow(t.Context(), scaled.Triggers[0].Metadata["query"]).Scan(&owed); err != nil || owed != 3 {
		t.Errorf("%d matters owed, want 3: %v", owed, err)
	}
}
