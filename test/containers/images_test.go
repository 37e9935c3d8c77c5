package containers

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// programs are the images, and whether each can say how it is.
var programs = map[string]bool{"railworker": true, "outbox-relay": true, "brief-builder": true, "railctl": false}

// inspected is what docker says of an image.
type inspected struct {
	Architecture string
	Size         int64
	RootFS       struct{ Layers []string }
	Config       struct {
		User                 string
		Entrypoint, Env      []string
		Labels, ExposedPorts map[string]any
		Healthcheck          *struct{ Test []string }
	}
}

func inspect(t *testing.T, image string) inspected {
	t.Helper()
	var found []inspected
	if err := json.Unmarshal([]byte(docker(t, "image", "inspect", image)), &found); err != nil || len(found) != 1 {
		t.Fatalf("docker image inspect %s: %v", image, err)
	}
	return found[0]
}

// build makes images that no other test uses, and removes them.
func build(t *testing.T, prefix, arch string, names ...string) {
	t.Helper()
	t.Cleanup(func() {
		for _, name := range names {
			_, _ = command(context.Background(), nil, "docker", "rmi", prefix+name+":test", prefix+name+":latest") // what was built, if it was
		}
	})
	env := []string{"IMAGE_PREFIX=" + prefix, "IMAGE_TAG=test", "NO_CACHE=yes", "ARCH=" + arch}
	if _, err := command(t.Context(), env, filepath.Join(root, "scripts", "images"), names...); err != nil {
		t.Fatal(err)
	}
}

// Two builds, each linked anew, of every layer anew, have the same layers: all images, for
// both processors.
func TestTwoBuildsHaveTheSameLayers(t *testing.T) {
	need(t)
	names := slices.Sorted(maps.Keys(programs))
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			if arch != runtime.GOARCH {
				inTime(t)
			}
			one, two := projects()+"/one-", projects()+"/two-"
			build(t, one, arch, names...)
			build(t, two, arch, names...)
			for _, name := range names {
				a, b := inspect(t, one+name+":test"), inspect(t, two+name+":test")
				if len(a.RootFS.Layers) != 2 || !slices.Equal(a.RootFS.Layers, b.RootFS.Layers) {
					t.Errorf("%s: layers %q, then %q", name, a.RootFS.Layers, b.RootFS.Layers)
				}
				if a.Architecture != arch {
					t.Errorf("%s is for %s", name, a.Architecture)
				}
			}
		})
	}
}

// Every image runs as a number, without rights, on a root that cannot be written to; says
// who it is; and knows how to say whether it is well.
func TestImagesAreHardened(t *testing.T) {
	need(t)
	ours(t)
	for name, healthy := range programs {
		image := "briefrail/" + name + ":latest"
		got := inspect(t, image)
		if c := got.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/" + name}) {
			t.Errorf("%s: user %q, entrypoint %q", name, c.User, c.Entrypoint)
		}
		if h := got.Config.Healthcheck; (h != nil) != healthy || healthy && !slices.Equal(h.Test, []string{"CMD", "/" + name, "healthcheck"}) {
			t.Errorf("%s: health check %+v", name, h)
		}
		revision, _ := got.Config.Labels["org.opencontainers.image.revision"].(string)
		version, _ := got.Config.Labels["org.opencontainers.image.version"].(string)
		if head, err := command(t.Context(), nil, "git", "-C", root, "rev-parse", "HEAD"); version == "" || revision == "" || err == nil && len(revision) != len(head) {
			t.Errorf("%s: version %q, revision %q", name, version, revision)
		}
		out := docker(t, "run", "--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none", image, "version")
		if !strings.Contains(out, name) {
			t.Errorf("%s version: %s", name, out)
		}
		t.Logf("%s: %.1f MB", name, float64(got.Size)/1e6)
	}
}

// Root certificates and time zones are inside, where Go looks for them.
func TestImagesHoldRootsAndZones(t *testing.T) {
	need(t)
	ours(t)
	container := docker(t, "create", "briefrail/railworker:latest")
	t.Cleanup(func() { _, _ = command(context.Background(), nil, "docker", "rm", container) })
	dir := t.TempDir()
	docker(t, "cp", container+":/etc/ssl/certs/ca-certificates.crt", dir)
	docker(t, "cp", container+":/usr/share/zoneinfo.zip", dir)
	roots, err := os.ReadFile(filepath.Join(dir, "ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(roots) || strings.Count(string(roots), "BEGIN") < 50 {
		t.Errorf("%d root certificates, %v", strings.Count(string(roots), "BEGIN"), err)
	}
	if info, err := os.Stat(filepath.Join(dir, "zoneinfo.zip")); err != nil || info.Size() < 100_000 {
		t.Errorf("time zones: %v", err)
	}
	if env := inspect(t, "briefrail/railworker:latest").Config.Env; !slices.Contains(env, "ZONEINFO=/usr/share/zoneinfo.zip") {
		t.Errorf("environment %q", env)
	}
}
