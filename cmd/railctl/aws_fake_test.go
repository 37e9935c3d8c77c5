package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The fake prints the environment that leads to it, and answers there until it is told
// to stop.
func TestAWSFake(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"aws-fake", "--listen", "127.0.0.1:0", "--drop", "0.25"}, nil, nil, in, io.Discard)
		_ = in.Close() // a pipe's end never fails to close
	}()
	env := map[string]string{}
	lines := bufio.NewScanner(out)
	for len(env) < 10 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		env[name] = value
	}
	if !strings.HasPrefix(env["RAIL_TRIGGER_QUEUE_URL"], env["AWS_ENDPOINT_URL"]+"/") || env["AWS_REGION"] == "" {
		t.Fatalf("environment %v", env)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, env["AWS_ENDPOINT_URL"]+"/_fake/chaos", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var chaos struct{ Drop float64 }
	if err := json.NewDecoder(resp.Body).Decode(&chaos); err != nil || chaos.Drop != .25 {
		t.Errorf("chaos %+v, %v", chaos, err)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit %d, want %d", got, exitOK)
	}
}

func TestAWSFakeRefusesShares(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"aws-fake", "--drop", "30"}, nil, nil, io.Discard, &stderr); code != exitUsage {
		t.Errorf("exit %d, want %d: %s", code, exitUsage, stderr.String())
	}
}
