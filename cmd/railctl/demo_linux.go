package main

import "syscall"

// dieWithParent has the kernel send the child a signal when the thread that started
// it ends, even when the demo itself is killed.
func dieWithParent(a *syscall.SysProcAttr, s syscall.Signal) { a.Pdeathsig = s }
