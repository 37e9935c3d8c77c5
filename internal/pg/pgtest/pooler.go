package pgtest

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Pooler starts a PgBouncer in transaction mode before the server of the test, with
// further settings of its file, and returns what turns a DSN of the server into one of
// the pooler. It skips the test where PgBouncer is not installed.
func (d *DB) Pooler(t testing.TB, more map[string]string) (through func(dsn string) string) {
	t.Helper()
	binary := findPooler(t)
	u, err := url.Parse(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	dir, port := scratch(t), freePort(t)
	users := filepath.Join(dir, "users.txt")
	file := filepath.Join(dir, "pgbouncer.ini")
	write(t, users, poolerUsers())
	write(t, file, poolerFile(u, users, port, more))
	args := []string{file}
	if os.Geteuid() == 0 { // as root it refuses to run
		args = []string{"-u", "nobody", file}
	}
	cmd := exec.Command(binary, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	awaitPooler(t, port, exited, &said)
	return func(dsn string) string { return onPort(t, dsn, port) }
}

func findPooler(t testing.TB) string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("PgBouncer is not installed (Debian, Ubuntu: apt-get install pgbouncer)")
	return ""
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// poolerUsers may log in without a password, as at the server.
func poolerUsers() string {
	var b strings.Builder
	for _, name := range []string{"postgres", "rail_app", "rail_relay", "rail_worker", "rail_operator", "rail_readonly", "rail_migrator"} {
		fmt.Fprintf(&b, "%q \"\"\n", name)
	}
	return b.String()
}

func poolerFile(server *url.URL, users string, port int, more map[string]string) string {
	s := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(port), "unix_socket_dir": "",
		"auth_type": "trust", "auth_file": users, "pool_mode": "transaction", "default_pool_size": "4",
	}
	maps.Copy(s, more)
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%s\n[pgbouncer]\n", server.Hostname(), server.Port())
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s = %s\n", k, s[k])
	}
	return b.String()
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String()) // our own words
	n, _ := strconv.Atoi(port)
	return n
}

func awaitPooler(t testing.TB, port int, exited <-chan struct{}, said fmt.Stringer) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-exited:
			t.Fatalf("PgBouncer ended at its start:\n%s", said)
		case <-tick.C:
		}
	}
	t.Fatal("PgBouncer does not answer")
}

func onPort(t testing.TB, dsn string, port int) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return u.String()
}
