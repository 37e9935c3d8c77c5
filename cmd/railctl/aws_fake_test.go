package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// The fake prints the environment that leads to it, and answers there until it is told
// to stop.
func TestAWSFake(t *testing.T) {
	t.Parallel()
	lines, stop := serving(t, nil, "aws-fake", "--listen", "127.0.0.1:0", "--drop", "0.25")
	env := map[string]string{}
	for len(env) < 10 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		env[name] = value
	}
	if !strings.HasPrefix(env["RAIL_TRIGGER_QUEUE_URL"], env["AWS_ENDPOINT_URL"]+"/") || env["AWS_REGION"] == "" {
		t.Fatalf("environment %v", env)
	}
	var chaos struct{ Drop float64 }
	if err := json.NewDecoder(fetch(t, env["AWS_ENDPOINT_URL"]+"/_fake/chaos").Body).Decode(&chaos); err != nil || chaos.Drop != .25 {
		t.Errorf("chaos %+v, %v", chaos, err)
	}
	stop()
}

func TestAWSFakeRefusesShares(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"aws-fake", "--drop", "30"}, nil, nil, io.Discard, &stderr); code != exitUsage {
		t.Errorf("exit %d, want %d: %s", code, exitUsage, stderr.String())
	}
}
