//go:build unix && !linux

package local

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"syscall"
)

// dieWithParent does nothing here: the kernel has no such signal, and the caller
// ends the server with Close.
func dieWithParent(*syscall.SysProcAttr) {}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	table, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var out []int
	for s := bufio.NewScanner(bytes.NewReader(table)); s.Scan(); {
		var p, parent int
		if n, _ := fmt.Sscan(s.Text(), &p, &parent); n == 2 && parent == pid {
			out = append(out, p)
		}
	}
	return out
}

// alive reports whether pid runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
