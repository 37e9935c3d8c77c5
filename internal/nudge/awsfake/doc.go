// Package awsfake stands in for EventBridge and SQS: it speaks the AWS JSON protocol
// for the calls that the rail and its producers make, and misbehaves on request. It
// imports no SDK, so that what it says was written from AWS's documentation, which
// each behaviour names.
//
// It owns its queues and buses, in memory, bounded, and gone with the process. A queue
// holds messages that are visible, in flight or delayed; a bus hands events to queues
// at once. Who decides: the script of a test (Script, Always), chance with a fixed seed
// (Chaos), and a clock that a test may move (Advance).
//
// Not promised: signatures, policies and regions are not checked; FIFO queues,
// encryption, archives and input transformers are missing; a standard queue keeps its
// order unless it is told to reorder; a move of dead letters is over at once; an event
// reaches its queue before PutEvents has answered.
package awsfake
