package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func exec1(t *testing.T, c *Cluster, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var out string
	if err := conn.QueryRow(t.Context(), sql).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKillAndRestartKeepWhatWasCommitted(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Settings: map[string]string{"max_connections": "20"}})
	if conn, err := pgx.Connect(t.Context(), c.DSN("postgres")); err != nil {
		t.Fatal(err)
	} else if _, err := conn.Exec(t.Context(), `create table kept as select 'here'::text as word`); err != nil {
		t.Fatal(err)
	}
	pid, kids := c.Pid(), children(c.Pid())
	if pid == 0 || len(kids) == 0 {
		t.Fatalf("postmaster %d with children %v", pid, kids)
	}
	c.Kill()
	for _, p := range append(kids, pid) {
		if alive(p) {
			t.Errorf("process %d survived Kill", p)
		}
	}
	if c.Pid() != 0 {
		t.Errorf("Pid = %d after Kill", c.Pid())
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := exec1(t, c, `select word from kept`); got != "here" {
		t.Errorf("word = %q", got)
	}
	if got := exec1(t, c, `show max_connections`); got != "20" {
		t.Errorf("max_connections = %s", got)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec1(t, c, `select word from kept`)
}

func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if got := exec1(t, c, `show listen_addresses`); got != "127.0.0.1" {
		t.Errorf("listen_addresses = %q", got)
	}
	if got := exec1(t, c, `show server_encoding`); got != "UTF8" {
		t.Errorf("server_encoding = %q", got)
	}
	if got := exec1(t, c, `show fsync`); got != "off" {
		t.Errorf("fsync = %q", got)
	}
}

func TestNoBinaries(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("err = %v", err)
	}
}

// TestDiesWithParent starts a server in a child process, kills that process, and
// expects the server to go.
func TestDiesWithParent(t *testing.T) {
	if os.Getenv("RAIL_TEST_PARENT") != "" {
		beParent(t)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("this kernel does not tell a child that its parent has gone")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	cmd.Env = append(os.Environ(), "RAIL_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, dir := readParent(t, bufio.NewScanner(out))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	kids := children(pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	gone(append(kids, pid))
	if alive(pid) {
		t.Errorf("postmaster %d outlived its parent", pid)
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
}

func beParent(t *testing.T) {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("PARENT %d %s\n", c.Pid(), c.Dir)
	select {} // until killed
}

func readParent(t *testing.T, s *bufio.Scanner) (pid int, dir string) {
	t.Helper()
	for s.Scan() {
		if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == "PARENT" {
			pid, _ = strconv.Atoi(f[1])
			return pid, f[2]
		}
	}
	t.Fatal("the parent said nothing")
	return 0, ""
}
