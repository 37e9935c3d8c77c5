package client

import (
	"context"
	"errors"
	"sync"
)

// ErrNoDraft means that no such draft is kept.
var ErrNoDraft = errors.New("client: there is no such draft")

// ErrOtherDraft means that another intent is kept under the same matter and id.
var ErrOtherDraft = errors.New("client: another intent is kept under this matter and id")

// Draft is an intent and how far it is.
type Draft struct {
	Intent   Intent   `json:"intent"`
	Digest   string   `json:"digest"`            // as it was sent
	Endpoint string   `json:"endpoint"`          // where it goes next
	Epoch    int64    `json:"epoch,omitempty"`   // under which; 0: whichever is current
	Sent     bool     `json:"sent"`              // it may have arrived somewhere: its receipt is asked for first
	Receipt  *Receipt `json:"receipt,omitempty"` // once it is decided
}

// Drafts keep drafts by matter and intent. Put must have kept the draft for good when
// it returns: the intent is sent right after.
type Drafts interface {
	Put(ctx context.Context, d Draft) error
	Get(ctx context.Context, matter, intent string) (Draft, error) // ErrNoDraft
	Delete(ctx context.Context, matter, intent string) error       // nil where there is none
	All(ctx context.Context) ([]Draft, error)
}

// Memory keeps drafts as long as the process lives. The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	kept map[[2]string]Draft
}

// Put implements Drafts.
func (m *Memory) Put(_ context.Context, d Draft) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[[2]string]Draft{}
	}
	m.kept[[2]string{d.Intent.Matter, d.Intent.ID}] = d
	return nil
}

// Get implements Drafts.
func (m *Memory) Get(_ context.Context, matter, intent string) (Draft, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.kept[[2]string{matter, intent}]
	if !ok {
		return Draft{}, ErrNoDraft
	}
	return d, nil
}

// Delete implements Drafts.
func (m *Memory) Delete(_ context.Context, matter, intent string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, [2]string{matter, intent})
	return nil
}

// All implements Drafts.
func (m *Memory) All(context.Context) ([]Draft, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Draft, 0, len(m.kept))
	for _, d := range m.kept {
		all = append(all, d)
	}
	return all, nil
}
