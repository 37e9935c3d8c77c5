package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"briefrail/client"
)

func anIntent() client.Intent {
	saw := int64(3)
	return client.Intent{ID: client.NewID(), Firm: client.NewID(), Matter: client.NewID(), Kind: client.Regenerate, Payload: []byte("words\x00\xff"), Expected: &saw}
}

func aDraft() client.Draft {
	i := anIntent()
	return client.Draft{Intent: i, Digest: i.Digest(), Endpoint: "https://rail.example", Epoch: 7, Sent: true}
}

func files(t *testing.T, dir string) *client.Files {
	t.Helper()
	f, err := client.NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Both keep drafts in the same way.
func TestDrafts(t *testing.T) {
	t.Parallel()
	for name, drafts := range map[string]client.Drafts{"memory": &client.Memory{}, "files": files(t, filepath.Join(t.TempDir(), "drafts"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep(t, drafts)
		})
	}
}

func keep(t *testing.T, drafts client.Drafts) {
	t.Helper()
	a, b := aDraft(), aDraft()
	if _, err := drafts.Get(t.Context(), a.Intent.Matter, a.Intent.ID); !errors.Is(err, client.ErrNoDraft) {
		t.Errorf("nothing is kept: %v", err)
	}
	for _, d := range []client.Draft{a, b, a} {
		if err := drafts.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	got, err := drafts.Get(t.Context(), a.Intent.Matter, a.Intent.ID)
	if err != nil || string(got.Intent.Payload) != string(a.Intent.Payload) || *got.Intent.Expected != 3 || got.Epoch != 7 || !got.Sent || got.Endpoint != a.Endpoint {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := drafts.Get(t.Context(), b.Intent.Matter, a.Intent.ID); !errors.Is(err, client.ErrNoDraft) {
		t.Errorf("another matter's: %v", err)
	}
	if all, err := drafts.All(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("all are %+v, %v", all, err)
	}
	for range 2 {
		if err := drafts.Delete(t.Context(), a.Intent.Matter, a.Intent.ID); err != nil {
			t.Error(err)
		}
	}
	if all, err := drafts.All(t.Context()); err != nil || len(all) != 1 || all[0].Intent.ID != b.Intent.ID {
		t.Errorf("all are %+v, %v", all, err)
	}
}

// What a dying machine leaves beside a draft is no draft, one that was tampered with is
// told and hides no other, and strangers read none.
func TestFilesThatAreDamaged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "drafts")
	drafts, good, bad := files(t, dir), aDraft(), aDraft()
	for _, d := range []client.Draft{good, bad} {
		if err := drafts.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, bad.Intent.Matter+"."+bad.Intent.ID+".json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "{", string(text[:len(text)-2]), strings.Replace(string(text), bad.Digest, strings.Repeat("0", 64), 1), strings.Replace(string(text), bad.Intent.ID, good.Intent.ID, 1)} {
		if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := drafts.Get(t.Context(), bad.Intent.Matter, bad.Intent.ID); err == nil || errors.Is(err, client.ErrNoDraft) || !strings.Contains(err.Error(), bad.Intent.ID) {
			t.Errorf("%.20q: %v", damaged, err)
		}
		if all, err := drafts.All(t.Context()); err == nil || len(all) != 1 || all[0].Intent.ID != good.Intent.ID {
			t.Errorf("%.20q: all are %+v, %v", damaged, all, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".draft-1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := drafts.Delete(t.Context(), bad.Intent.Matter, bad.Intent.ID); err != nil {
		t.Error(err)
	}
	if all, err := drafts.All(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("all are %+v, %v", all, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, good.Intent.Matter+"."+good.Intent.ID+".json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", filepath.Base(path), info.Mode(), err)
		}
	}
	for _, id := range []string{"../../etc/passwd", "", strings.ToUpper(good.Intent.ID)} {
		if _, err := drafts.Get(t.Context(), good.Intent.Matter, id); err == nil || errors.Is(err, client.ErrNoDraft) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
