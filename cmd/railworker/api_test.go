package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/client"
	"briefrail/internal/pg/pgtest"
)

// tokenFile is a file of one token for all firms, with the permissions of mode.
func tokenFile(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("all "+apiToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

const apiToken = "a-token-of-all-firms-1"

// An intent over HTTP becomes a frame, with the rights of a worker alone; a stop ends
// the listener as the rest.
func TestIntentBecomesAFrame(t *testing.T) {
	t.Parallel()
	db, key := pgtest.New(t), newKey()
	db.GrantRoles(t)
	w := startWorker(t, quick(db.As(t, "rail_worker"), serve(t, nil).URL).with(settings{
		"API_LISTEN": "127.0.0.1:0", "API_TOKEN_FILE": tokenFile(t, 0o440), "DATABASE_MAX_CONNS": "6",
	}))
	eventually(t, time.Minute, "the interface listens", func() bool { return w.log.field("listening for intents", "listen") != "" })
	c, err := client.New(client.Options{
		Endpoints: []string{"http://" + w.log.field("listening for intents", "listen")}, Drafts: &client.Memory{},
		Token: func(string) (string, error) { return apiToken, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := c.Send(t.Context(), client.Intent{ID: client.NewID(), Firm: key.Firm.String(), Matter: key.Matter.String(), Kind: client.Regenerate})
	if err != nil || receipt.Outcome != "accepted" || receipt.Epoch != 1 || receipt.Writer != "rail" {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	awaitQuiet(t, db.Pool, time.Minute)
	db.CheckLedger(t)
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frames WHERE matter_id = $1`, key.Matter); n != 1 {
		t.Errorf("%d frames", n)
	}
	if n := w.metric(`rail_api_requests_total{answer="accepted"}`); n != 1 {
		t.Errorf("%v accepted intents are counted", n)
	}
	w.signal(syscall.SIGTERM)
	if code := w.await(t, time.Minute); code != 0 {
		t.Errorf("exit %d after SIGTERM:\n%s", code, w.log)
	}
}

// A worker does not start with tokens that anybody can read, or that say nothing.
func TestTokensAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(empty, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{tokenFile(t, 0o644): "lets others in", empty: "has no token"} {
		w := launch(t, quick("postgres://rail@127.0.0.1:1/none", "http://127.0.0.1:1/").with(settings{
			"API_LISTEN": "127.0.0.1:0", "API_TOKEN_FILE": file, "DATABASE_MAX_CONNS": "6",
		}), "run")
		if code := w.await(t, time.Minute); code != 2 || !strings.Contains(w.log.String(), want) {
			t.Errorf("exit %d, want 2 and %q:\n%s", code, want, w.log)
		}
	}
}
