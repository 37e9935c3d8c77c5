package nudge_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/nudgetest"
)

// Without an endpoint of ours the environment keeps its say, per service too.
func TestEndpointOfTheEnvironment(t *testing.T) {
	fake, url := serve(t, awsfake.Options{})
	other, otherURL := serve(t, awsfake.Options{})
	p := fake.Provision(url, awsfake.Layout{})
	other.Provision(otherURL, awsfake.Layout{})
	t.Setenv("AWS_ENDPOINT_URL", url)
	t.Setenv("AWS_ENDPOINT_URL_SQS", otherURL)
	bridge, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Bus: p.Bus})
	if err != nil {
		t.Fatal(err)
	}
	straight, err := nudge.NewSQS(t.Context(), nudge.SQSOptions{Queue: p.Queue})
	if err != nil {
		t.Fatal(err)
	}
	for _, sink := range []publisher{bridge, straight} {
		if got, err := sink.Publish(t.Context(), nudgetest.Nudges(1)); err != nil || got[0].Verdict != nudge.Sent {
			t.Errorf("%T: %v, %v", sink, words(got), err)
		}
	}
	if fake.Calls("PutEvents") != 1 || other.Calls("SendMessageBatch") != 1 || fake.Calls("SendMessageBatch") != 0 {
		t.Errorf("calls went elsewhere: %+v and %+v", fake.Stats().Calls, other.Stats().Calls)
	}
}

// The SDK's own retries stay off on publishing whatever the environment asks for.
func TestRetriesOfTheEnvironment(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "5")
	t.Setenv("AWS_RETRY_MODE", "adaptive")
	s := newStage(t, nudgetest.Shape{})
	for op, sink := range s.sinks(t) {
		s.fake.Always(op, 1, awsfake.AcceptThenReset())
		if _, err := sink.Publish(t.Context(), nudgetest.Nudges(2)); err == nil {
			t.Errorf("%s: an answer that was cut is no error", op)
		}
		if n := s.fake.Calls(op); n != 1 {
			t.Errorf("%s was called %d times", op, n)
		}
	}
	if n := s.arrived(); n != 4 {
		t.Errorf("%d messages arrived, want each once", n)
	}
}

func TestRegionIsNeeded(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	if _, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{}); err == nil {
		t.Error("no region is no error")
	}
	if _, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Region: "eu-central-1"}); err != nil {
		t.Errorf("a region of ours: %v", err)
	}
}

// Credentials that were rotated in their file are used after AWS called the old ones
// expired, without a restart; without any the sink pauses.
func TestRotatedCredentialsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	write("[default]\naws_access_key_id = OLD\naws_secret_access_key = x\n")
	fake, url := serve(t, awsfake.Options{})
	p := fake.Provision(url, awsfake.Layout{})
	sink, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Bus: p.Bus, Endpoint: url, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(want nudge.Verdict, key string) {
		t.Helper()
		_, err := sink.Publish(t.Context(), nudgetest.Nudges(1))
		if verdict, code := nudge.ClassOf(err); verdict != want || fake.LastKey() != key {
			t.Errorf("%s (%s) with key %s: %v; want %s with %s", verdict, code, fake.LastKey(), err, want, key)
		}
	}
	publish(nudge.Sent, "OLD")
	write("[default]\naws_access_key_id = NEW\naws_secret_access_key = x\n")
	fake.Script("PutEvents", awsfake.ExpiredCredentials())
	publish(nudge.Paused, "OLD")
	publish(nudge.Sent, "NEW")
	write("")
	fake.Script("PutEvents", awsfake.ExpiredCredentials())
	publish(nudge.Paused, "NEW")
	publish(nudge.Paused, "NEW") // nobody is asked: there is nothing to sign with
	write("[default]\naws_access_key_id = LAST\naws_secret_access_key = x\n")
	fake.Script("PutEvents", awsfake.OK())
	publish(nudge.Sent, "LAST")
}
