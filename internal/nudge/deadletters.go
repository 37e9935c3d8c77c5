package nudge

import (
	"context"
	"errors"
	"time"
)

// Letter is one message of a dead-letter queue, looked at and left there. Reason is
// empty where the body decodes as a nudge.
type Letter struct {
	ID           string
	Body         []byte
	ReceiveCount int
	Sent         time.Time
	Nudge        Nudge
	Reason       Reason
}

// Move is one redrive task of a dead-letter queue. Status is AWS's word: RUNNING,
// COMPLETED, CANCELLING, CANCELLED or FAILED.
type Move struct {
	Handle  string
	Status  string
	Moved   int64
	ToMove  int64
	Started time.Time
	Failure string
}

// DeadLetters is the dead-letter queue of a Queue, for a person who redrives it.
type DeadLetters struct{}

// DeadLetters finds the queue's dead-letter queue by its redrive policy. The error says
// that it has none or that it may not be read.
func (q *Queue) DeadLetters(ctx context.Context) (*DeadLetters, error) {
	return nil, errors.New("not yet")
}

// List looks at up to max letters and leaves them: each stays invisible to others for a
// few seconds and its receive count grows by one. SQS hands out samples, so fewer than
// there are may come back.
func (d *DeadLetters) List(ctx context.Context, max int) ([]Letter, error) {
	return nil, errors.New("not yet")
}

// Depth is as Queue.Depth.
func (d *DeadLetters) Depth(ctx context.Context) (Depth, error) {
	return Depth{}, errors.New("not yet")
}

// Redrive starts to move all letters back to where they came from, at most perSecond a
// second (0: as AWS likes), and returns the task's handle.
func (d *DeadLetters) Redrive(ctx context.Context, perSecond int) (handle string, err error) {
	return "", errors.New("not yet")
}

// Moves returns the latest redrive tasks, the newest first.
func (d *DeadLetters) Moves(ctx context.Context) ([]Move, error) { return nil, errors.New("not yet") }
