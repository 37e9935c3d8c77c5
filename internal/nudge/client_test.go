package nudge

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Without credentials the sink pauses; nobody's row is to blame.
func TestNoCredentialsPauses(t *testing.T) {
	t.Parallel()
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("the metadata service does not answer")
	})
	sink, err := NewEventBridge(t.Context(), EventBridgeOptions{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	sink.aws.creds.inner = none
	_, err = sink.Publish(t.Context(), []Nudge{sample(t)})
	if verdict, code := ClassOf(err); verdict != Paused || code != "credentials" {
		t.Errorf("%s %s: %v", verdict, code, err)
	}
	found, err := sink.Preflight(t.Context())
	if err == nil || len(found) != 1 || found[0].State != Unknown {
		t.Errorf("preflight without credentials: %+v, %v", found, err)
	}
}

// A renewed source of credentials is seen after forget, and not before.
func TestCredentialsAreReadAgain(t *testing.T) {
	t.Parallel()
	current := "old"
	source := func(context.Context) (aws.Config, error) {
		key := current
		return aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key}, nil
		})}, nil
	}
	c := &credentials{again: source}
	want := func(key string) {
		t.Helper()
		if got, err := c.Retrieve(t.Context()); err != nil || got.AccessKeyID != key {
			t.Errorf("credentials %q, %v; want %q", got.AccessKeyID, err, key)
		}
	}
	want("old")
	current = "new"
	want("old")
	c.forget()
	want("new")
	c.again, c.inner = func(context.Context) (aws.Config, error) { return aws.Config{}, nil }, nil
	if _, err := c.Retrieve(t.Context()); !errors.Is(err, errCredentials) {
		t.Errorf("no source: %v", err)
	}
}

func TestXRay(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=0",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0b": "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0":  "",
		"": "", "nonsense": "",
	} {
		if got := xray(in); got != want {
			t.Errorf("xray(%q) = %q, want %q", in, got, want)
		}
	}
	sink, err := NewEventBridge(t.Context(), EventBridgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := sink.entry(sample(t)); aws.ToString(e.TraceHeader) == "" || *e.Source != "brief.ops" || *e.DetailType != "document.uploaded" {
		t.Errorf("entry %+v", e)
	}
	if e := sink.entry(Nudge{}); e.TraceHeader != nil {
		t.Errorf("a trace header out of nothing: %s", *e.TraceHeader)
	}
}

// Ids that we never gave, given twice, or in another spelling decide nothing.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "-1", "+1", "01", "3", "x", "1 ", "99999999999999999999"} {
		if i, ok := placeOf(bad, 3); ok {
			t.Errorf("placeOf(%q) = %d", bad, i)
		}
	}
	got := batchResults(3, []string{"0", "0", "01", "9"}, nil)
	if got[0].Verdict != Sent || got[1].Verdict != Retry || got[2].Verdict != Retry {
		t.Errorf("results %+v", got)
	}
}
