package pgtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg/local"
)

// settings of the shared cluster: many sessions, nothing that works in the
// background. Raise generation when they change, or a running one is joined.
func settings() map[string]string {
	return map[string]string{
		"max_connections":           "400",
		"shared_buffers":            "256MB",
		"autovacuum":                "off",
		"wal_level":                 "minimal",
		"max_wal_senders":           "0",
		"max_wal_size":              "1GB",
		"checkpoint_timeout":        "1h",
		"max_locks_per_transaction": "128",
		"log_min_messages":          "fatal",
	}
}

const generation = 2

// join returns the maintenance DSN of the shared cluster, which it starts when
// nobody has.
func join(ctx context.Context) (string, error) {
	dir, err := sharedDir()
	if err != nil {
		return "", err
	}
	if dsn, ok := joined(ctx, dir); ok {
		return dsn, nil
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if dsn, ok := joined(ctx, dir); ok { // another process was faster
		return dsn, nil
	}
	return start(ctx, dir)
}

// sharedDir is per user, per version of PostgreSQL and per temporary folder: a run with
// a TMPDIR of its own may end its cluster under nobody else.
func sharedDir() (string, error) {
	bin, err := local.Find("")
	if err != nil {
		return "", err
	}
	of := fnv.New32a()
	of.Write([]byte(os.TempDir()))
	return filepath.Join(fastDir(), fmt.Sprintf("briefrail-pgtest-%d-%d-%d-%08x", os.Geteuid(), bin.Major, generation, of.Sum32())), nil
}

// memory is where Linux keeps files in memory. A database is some 300 files, and to
// make those takes 20 ms there and 350 ms on a disk's file system.
const (
	memory    = "/dev/shm"
	minMemory = 2 << 30 // bytes; a container's default of 64 MB is too small
)

// fastDir is memory where there is enough of it, else the temporary folder. The
// size counts, not what is free, so that every process chooses alike.
func fastDir() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err == nil && uint64(fs.Blocks)*uint64(fs.Bsize) >= minMemory {
		return memory
	}
	return os.TempDir()
}

// start runs a new cluster. What a dead one left is thrown away: nothing in it is
// worth a recovery.
func start(ctx context.Context, dir string) (string, error) {
	if err := end(dir); err != nil {
		return "", err
	}
	c, err := local.Start(ctx, local.Options{Dir: dir, Settings: settings(), Survive: true})
	if err != nil {
		return "", err
	}
	return c.DSN("postgres"), nil
}

// joined tries the cluster that the data directory's pid file describes.
func joined(ctx context.Context, dir string) (dsn string, ok bool) {
	_, port := pidFile(dir)
	if port == 0 {
		return "", false
	}
	dsn = local.DSN(port, "postgres")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", false
	}
	defer func() { _ = conn.Close(ctx) }()
	var data string
	err = conn.QueryRow(ctx, "show data_directory").Scan(&data)
	return dsn, err == nil && data == filepath.Join(dir, "data") // not some other server on a reused port
}

// pidFile reads postmaster.pid: the first line is the process, the fourth the
// port. Both are 0 when there is no server.
func pidFile(dir string) (pid, port int) {
	b, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	lines := strings.Split(string(b), "\n")
	if err != nil || len(lines) < 4 {
		return 0, 0
	}
	pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	return pid, port
}

// Stop ends the shared cluster and removes its folder. It reports whether there
// was one.
func Stop() (bool, error) {
	dir, err := sharedDir()
	if err != nil {
		return false, err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return false, err
	}
	defer unlock()
	_, err = os.Stat(dir)
	return err == nil, end(dir)
}

// end shuts down the cluster in dir, if one runs, and removes dir.
func end(dir string) error {
	if pid, _ := pidFile(dir); pid > 1 && isPostgres(pid, dir) {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for until := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; <-tick.C {
			if time.Now().After(until) {
				return fmt.Errorf("the shared test cluster (process %d) does not end", pid)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the shared test cluster: %w", err)
	}
	return nil
}

// isPostgres guards against a process id that has been reused: where the command
// line can be read it must name our data directory.
func isPostgres(pid int, dir string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, os.ErrNotExist) {
		_, statErr := os.Stat("/proc/self")
		return statErr != nil // no /proc on this system: believe the pid file
	}
	return err == nil && strings.Contains(string(b), dir)
}

// lock takes an exclusive lock that ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the shared test cluster: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock of the shared test cluster: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
