package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files keeps each draft in a file of one folder, named after its matter and intent.
// A draft is written beside its place, forced to the disk and moved there: a process or
// machine that dies meanwhile leaves the old draft or the new one, never a part. Several
// processes may use one folder.
type Files struct{ dir string }

// NewFiles makes the folder where it is missing, for its owner only: payloads are in it.
func NewFiles(dir string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("client: folder of drafts: %w", err)
	}
	return &Files{dir: dir}, nil
}

func (f *Files) path(matter, intent string) (string, error) {
	if !isUUID(matter) || !isUUID(intent) {
		return "", fmt.Errorf("client: %.40q and %.40q are not the ids of a draft", matter, intent)
	}
	return filepath.Join(f.dir, matter+"."+intent+".json"), nil
}

// Put implements Drafts.
func (f *Files) Put(_ context.Context, d Draft) error {
	path, err := f.path(d.Intent.Matter, d.Intent.ID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("client: write draft: %w", err)
	}
	beside, err := os.CreateTemp(f.dir, ".draft-*")
	if err != nil {
		return fmt.Errorf("client: write draft: %w", err)
	}
	defer func() { _ = os.Remove(beside.Name()) }() // gone already where it was moved
	_, err = beside.Write(data)
	if err = errors.Join(err, beside.Sync(), beside.Close()); err == nil {
		err = os.Rename(beside.Name(), path)
	}
	if err = errors.Join(err, f.sync()); err != nil {
		return fmt.Errorf("client: write draft: %w", err)
	}
	return nil
}

// sync makes a move within the folder last.
func (f *Files) sync() error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Get implements Drafts.
func (f *Files) Get(_ context.Context, matter, intent string) (Draft, error) {
	path, err := f.path(matter, intent)
	if err != nil {
		return Draft{}, err
	}
	return read(path)
}

func read(path string) (d Draft, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, ErrNoDraft
	}
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err == nil && (filepath.Base(path) != d.Intent.Matter+"."+d.Intent.ID+".json" || d.Intent.Digest() != d.Digest) {
		err = errors.New("the draft is not the one of its name, or its payload not the one of its digest")
	}
	if err != nil {
		return Draft{}, fmt.Errorf("client: read draft %s: %w", filepath.Base(path), err)
	}
	return d, nil
}

// Delete implements Drafts.
func (f *Files) Delete(_ context.Context, matter, intent string) error {
	path, err := f.path(matter, intent)
	if err != nil {
		return err
	}
	if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, f.sync())
}

// All implements Drafts. One file that cannot be read does not hide the others: they
// come with the error.
func (f *Files) All(context.Context) (all []Draft, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("client: folder of drafts: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		d, bad := read(filepath.Join(f.dir, e.Name()))
		if errors.Is(bad, ErrNoDraft) {
			continue // forgotten meanwhile
		}
		if err = errors.Join(err, bad); bad == nil {
			all = append(all, d)
		}
	}
	return all, err
}
