package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Backup copies the running cluster's data into a folder of that name beside it, with
// the log that makes it whole. Restore puts it back.
func (c *Cluster) Backup(ctx context.Context, name string) error {
	return c.copyTo(ctx, filepath.Join(c.Dir, name))
}

// Restore puts a backup of Backup in the place of the data and starts the server: it
// recovers to the end of the backup, begins a new timeline, and what was committed
// later is gone. The backup is used up.
func (c *Cluster) Restore(ctx context.Context, name string) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.data()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(filepath.Join(c.Dir, name), c.data()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// there is no archive: the log lies in the backup itself
	if err := c.append("postgresql.auto.conf", "restore_command = 'false'\n"); err != nil {
		return err
	}
	if err := c.append("recovery.signal", ""); err != nil {
		return err
	}
	if err := c.Restart(ctx); err != nil {
		return err
	}
	return c.awaitPrimary(ctx)
}

// Standby starts a server that follows c, asynchronously as far as c's settings do not
// say otherwise. Its options are those of Start.
func (c *Cluster) Standby(ctx context.Context, o Options) (*Cluster, error) {
	s := &Cluster{Dir: o.Dir, Port: o.Port, Bin: c.Bin, opts: o, as: c.as, temp: o.Dir == ""}
	if err := s.folder(); err != nil {
		return nil, err
	}
	if err := c.copyTo(ctx, s.data(), "--write-recovery-conf"); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	if err := s.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// Promote makes a primary of a standby, on a timeline of its own.
func (c *Cluster) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be said on it
	var done bool
	if err := conn.QueryRow(ctx, `SELECT pg_promote(true, $1)`, int(startTimeout.Seconds())).Scan(&done); err != nil || !done {
		return fmt.Errorf("promote: done %v: %w", done, err)
	}
	return nil
}

func (c *Cluster) copyTo(ctx context.Context, dir string, more ...string) error {
	if err := c.as.mkdir(dir); err != nil {
		return err
	}
	cmd := c.command("pg_basebackup", append([]string{
		"-D", dir, "-h", "127.0.0.1", "-p", strconv.Itoa(c.Port), "-U", "postgres", "-X", "stream", "--checkpoint=fast", "--no-sync", "--no-password",
	}, more...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("pg_basebackup: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, tail(out.Bytes()))
	}
	return nil
}

// append adds text to a file of the data directory, which it makes where it is not.
func (c *Cluster) append(name, text string) error {
	path := filepath.Join(c.data(), name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return c.as.own(path)
}

// awaitPrimary waits for the end of a recovery: a server answers before it.
func (c *Cluster) awaitPrimary(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("end of recovery: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be said on it
	for recovering := true; recovering; {
		const sql = `SELECT pg_is_in_recovery() FROM pg_sleep(0.02)`
		if err := conn.QueryRow(ctx, sql).Scan(&recovering); err != nil {
			return fmt.Errorf("end of recovery: %w", err)
		}
	}
	return nil
}
