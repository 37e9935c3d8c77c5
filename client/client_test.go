package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"briefrail/client"
)

// stub answers each request with the next of some answers, and the last for ever.
type stub struct {
	mu      sync.Mutex
	answers []func(http.ResponseWriter, *http.Request)
	seen    []string
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	answer(w, r)
}

func (s *stub) passed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, " ")
}

func says(status int, kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func fault(status int, kind, more string) func(http.ResponseWriter, *http.Request) {
	return says(status, "application/problem+json", fmt.Sprintf(`{"type":"urn:briefrail:problem:%s","title":"No","status":%d%s}`, kind, status, more))
}

func start(t *testing.T, drafts client.Drafts, attempts int, answers ...func(http.ResponseWriter, *http.Request)) (*client.Client, *stub) {
	t.Helper()
	s := &stub{answers: answers}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Options{
		Endpoints: []string{srv.URL}, Drafts: drafts, Attempts: attempts, Backoff: time.Millisecond, Longest: 2 * time.Millisecond,
		Token: func(string) (string, error) { return "a-token", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// What is not of the protocol says nothing: neither that an intent was decided, nor that
// there is no receipt, and so it is not sent again.
func TestAnswersOfOthersSayNothing(t *testing.T) {
	t.Parallel()
	i := anIntent()
	receipt := func(id, digest, outcome string) string {
		return `{"intent_id":"` + id + `","matter_id":"` + i.Matter + `","outcome":"` + outcome + `","payload_digest":"` + digest + `"}`
	}
	for name, other := range map[string]func(http.ResponseWriter, *http.Request){
		"a page":                     says(200, "text/html", "<h1>Login</h1>"),
		"a proxy that finds nothing": says(404, "text/html", "not found"),
		"a 404 of JSON":              says(404, "application/json", `{}`),
		"a gateway":                  says(502, "text/plain", "bad gateway"),
		"a problem of others":        says(404, "application/problem+json", `{"type":"about:blank","status":404}`),
		"a problem that is none":     says(404, "application/problem+json", `[`),
		"another intent's receipt":   says(200, "application/json", receipt(client.NewID(), i.Digest(), "accepted")),
		"an outcome of its own":      says(200, "application/json", receipt(i.ID, i.Digest(), "perhaps")),
		"nothing":                    says(204, "", ""),
		"a way elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/intents/"+client.NewID(), http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drafts := &client.Memory{}
			c, s := start(t, drafts, 3, other)
			_, err := c.Send(t.Context(), i)
			if lost := (*client.Lost)(nil); !errors.As(err, &lost) || s.passed() != "POST GET GET" {
				t.Errorf("got %v after %s, want one intent and that nothing is known", err, s.passed())
			}
			if d, err := drafts.Get(t.Context(), i.Matter, i.ID); err != nil || !d.Sent || d.Receipt != nil {
				t.Errorf("the draft is %+v, %v", d, err)
			}
		})
	}
}

// A receipt of the same id about other content is nobody's success.
func TestAReceiptOfOtherContent(t *testing.T) {
	t.Parallel()
	i, other := anIntent(), anIntent()
	body := `{"intent_id":"` + i.ID + `","matter_id":"` + i.Matter + `","outcome":"accepted","payload_digest":"` + strings.Repeat("0", 64) + `"}`
	for _, answers := range [][]func(http.ResponseWriter, *http.Request){
		{says(202, "application/json", body)},
		{says(502, "", ""), says(200, "application/json", body)},
		{says(202, "application/json", strings.Replace(strings.Replace(body, strings.Repeat("0", 64), i.Digest(), 1), i.Matter, other.Matter, 1))},
	} {
		c, _ := start(t, &client.Memory{}, 3, answers...)
		_, err := c.Send(t.Context(), i)
		if differs := (*client.Differs)(nil); !errors.As(err, &differs) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	c, s := start(t, &client.Memory{}, 4, fault(503, "authority-closing", `,"retry_after_ms":86400000,"epoch":9`), fault(404, "no-receipt", ""), fault(503, "authority-closing", `,"retry_after_ms":1,"epoch":9`), fault(404, "no-receipt", ""),
		fault(503, "authority-closing", `,"retry_after_ms":1,"epoch":9`), fault(404, "no-receipt", ""), fault(503, "authority-closing", `,"retry_after_ms":70,"epoch":9`))
	_, err := c.Send(t.Context(), anIntent())
	if closing := (*client.Closing)(nil); !errors.As(err, &closing) || closing.Epoch != 9 || closing.After != 70*time.Millisecond || s.passed() != "POST GET POST GET POST GET POST" {
		t.Errorf("got %v after %s", err, s.passed())
	}
}

// Two that each say that the other decides are not asked for ever, and a caller who goes
// is let go.
func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	drafts := &client.Memory{}
	c, s := start(t, drafts, 5, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fault(404, "no-receipt", "")(w, r)
			return
		}
		fault(409, "authority-epoch-changed", `,"epoch":2,"writer":"b","endpoint":"http://`+r.Host+`/`+r.URL.Path[1:3]+`"`)(w, r)
	})
	_, err := c.Send(t.Context(), anIntent())
	if moved := (*client.Moved)(nil); !errors.As(err, &moved) || moved.Epoch != 2 {
		t.Errorf("got %v after %s", err, s.passed())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Send(ctx, anIntent()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, to := range []string{"ftp://x", "https://user:secret@x", "https://x?y", "x"} {
		c, _ := start(t, &client.Memory{}, 3, fault(409, "authority-epoch-changed", `,"epoch":2,"writer":"b","endpoint":"`+to+`"`))
		_, err := c.Send(t.Context(), anIntent())
		if moved := (*client.Moved)(nil); !errors.As(err, &moved) || moved.Why == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// A draft stays when its intent is decided, until it is forgotten.
func TestDraftsAreKeptUntilForgotten(t *testing.T) {
	t.Parallel()
	i := anIntent()
	c, s := start(t, &client.Memory{}, 3, says(202, "application/json",
		`{"intent_id":"`+i.ID+`","matter_id":"`+i.Matter+`","outcome":"accepted","payload_digest":"`+i.Digest()+`"}`))
	for range 2 { // the second time from what is kept
		if _, err := c.Send(t.Context(), i); err != nil || s.passed() != "POST" {
			t.Errorf("got %v after %s", err, s.passed())
		}
	}
	if kept, err := c.Drafts(t.Context()); err != nil || len(kept) != 1 || kept[0].Receipt == nil {
		t.Errorf("kept: %+v, %v", kept, err)
	}
	if err := c.Forget(t.Context(), i.Matter, i.ID); err != nil {
		t.Error(err)
	}
	if kept, err := c.Drafts(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("kept after all: %+v, %v", kept, err)
	}
}

// A draft that cannot be kept is not sent.
func TestDraftsBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	c, s := start(t, &broken{err: full}, 3, says(502, "", ""))
	if _, err := c.Send(t.Context(), anIntent()); !errors.Is(err, full) || s.passed() != "" {
		t.Errorf("got %v after %s", err, s.passed())
	}
	if _, err := c.Resume(t.Context(), client.NewID(), client.NewID()); !errors.Is(err, client.ErrNoDraft) {
		t.Errorf("got %v", err)
	}
}

// broken keeps nothing.
type broken struct {
	client.Memory
	err error
}

func (b *broken) Put(context.Context, client.Draft) error { return b.err }

func TestWhatIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, o := range []client.Options{
		{},
		{Endpoints: []string{"rail.example"}, Drafts: &client.Memory{}, Token: func(string) (string, error) { return "", nil }},
		{Endpoints: []string{"https://rail.example"}, Drafts: &client.Memory{}},
	} {
		if _, err := client.New(o); err == nil {
			t.Errorf("takes %+v", o)
		}
	}
	c, s := start(t, &client.Memory{}, 3, says(502, "", ""))
	for name, bend := range map[string]func(*client.Intent){
		"id": func(i *client.Intent) { i.ID = "x" }, "firm": func(i *client.Intent) { i.Firm = "../" + i.Firm }, "matter": func(i *client.Intent) { i.Matter = strings.ToUpper(i.Matter) + "x" },
		"kind": func(i *client.Intent) { i.Kind = "" },
	} {
		i := anIntent()
		bend(&i)
		if _, err := c.Send(t.Context(), i); err == nil || !strings.Contains(err.Error(), name) || s.passed() != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := c.Receipt(t.Context(), "https://rail.example", "x"); err == nil {
		t.Error("asks for the receipt of nothing")
	}
	if _, err := c.Authority(t.Context(), "https://rail.example", "x", "y"); err == nil {
		t.Error("asks who decides for nothing")
	}
}
