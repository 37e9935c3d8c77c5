// Package kumo checks the rail against an emulator of AWS that nobody here wrote,
// github.com/sivchari/kumo: what internal/nudge says on the wire, and the demo's whole
// story with the rail's own programs (railctl demo --aws-endpoint). It is a module of
// its own, owns nothing and is imported by nobody.
//
// The emulator keeps its state for the whole process and hands events from a bus to a
// queue by posting to 127.0.0.1:4566, so it runs as a child process that listens there,
// one at a time on a machine. It never fails an entry of PutEvents, does not wake a
// long poll when a visibility ends and has no redrive: those are for
// internal/nudge/awsfake.
//
// Where it differs from AWS and the rail is none the worse: PutEvents answers before
// the event is in the queue, and a delivery that fails is not tried again; InputPath
// hands the detail over with its members sorted; the envelope has no resources and a
// member event-bus-name that AWS does not send; messages in hand count as such after
// their visibility has ended, until somebody receives.
package kumo
