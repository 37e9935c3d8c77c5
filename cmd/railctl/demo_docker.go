package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
)

const demoImage = "postgres:17-alpine"

// startDocker runs the server in a container where this machine has no binaries of
// its own; missing is the error that says so. The container is the child of a
// "docker run" that stays in the foreground, so it ends and goes with us.
func (st *stage) startDocker(ctx context.Context, missing error) (what string, err error) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		return "", missing
	}
	if out, err := exec.CommandContext(ctx, docker, "info").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w; Docker is installed but not usable: %w: %.200s", missing, err, out)
	}
	port, err := unusedPort(ctx)
	if err != nil {
		return "", err
	}
	p, err := newProcess("PostgreSQL", docker, filepath.Join(st.dir, "docker.log"), syscall.SIGINT, []string{
		"run", "--rm", "--name", fmt.Sprintf("briefrail-demo-%d", port), "-p", fmt.Sprintf("127.0.0.1:%d:5432", port), "-e", "POSTGRES_HOST_AUTH_METHOD=trust",
		demoImage, "-c", "fsync=off", "-c", "full_page_writes=off",
	}, nil)
	if err != nil {
		return "", fmt.Errorf("docker run: %w", err)
	}
	st.dsn = local.DSN(port, "postgres")
	st.database = func(context.Context) error { _ = p.cmd.Process.Signal(syscall.SIGINT); return p.stop() }
	if err := answers(ctx, p, st.dsn); err != nil {
		return "", fmt.Errorf("%w; Docker did not help: %w", missing, err)
	}
	return fmt.Sprintf("Docker's %s on 127.0.0.1:%d", demoImage, port), nil
}

// answers waits for the server, the download of its image included. While the image
// sets its data up it has a server that listens on no port.
func answers(ctx context.Context, p *process, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pg.Connect(ctx, pg.Options{DSN: dsn, ConnectTimeout: 2 * time.Second})
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.exited:
			return errors.New("its container has ended")
		case <-ctx.Done():
			return fmt.Errorf("its PostgreSQL does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func unusedPort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return strconv.Atoi(port)
}
