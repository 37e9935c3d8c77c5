//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing here: the kernel has no such signal, and the demo ends
// its children itself unless it is killed.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
