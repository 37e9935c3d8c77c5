package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel send the server an immediate shutdown when the
// thread that started it ends.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }

// children lists the processes whose parent is pid.
func children(pid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the only error is a bad pattern
	var out []int
	for _, d := range dirs {
		if f := stat(d); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			n, _ := strconv.Atoi(filepath.Base(d))
			out = append(out, n)
		}
	}
	return out
}

// alive reports whether pid runs; one that only waits to be reaped does not.
func alive(pid int) bool {
	f := stat("/proc/" + strconv.Itoa(pid))
	return len(f) > 0 && f[0] != "Z"
}

// stat returns the fields of /proc/PID/stat behind the command's name: state,
// parent and so on. It is empty when there is no such process.
func stat(dir string) []string {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	i := bytes.LastIndexByte(b, ')')
	var out []string
	for _, f := range bytes.Fields(b[i+1:]) {
		out = append(out, string(f))
	}
	return out
}
