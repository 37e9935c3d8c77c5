// Package kumo checks what internal/nudge says on the wire against an emulator of AWS
// that nobody here wrote, github.com/sivchari/kumo. It is a module of its own, owns
// nothing and is imported by nobody.
//
// The emulator keeps its state for the whole process and hands events from a bus to a
// queue by posting to 127.0.0.1:4566, so it runs as a child process that listens there,
// one at a time on a machine. It never fails an entry of PutEvents, does not wake a
// long poll when a visibility ends and has no redrive: those are for
// internal/nudge/awsfake.
package kumo
