package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"briefrail/cmd/internal/explorer"
	"briefrail/internal/config"
	"briefrail/internal/console"
	"briefrail/internal/web"
)

const consoleHelp = `Serve the operator's pages: what is stale right now and why, a matter's story, runs,
parked matters, pauses, the outbox, and the model explorer. It ends with Ctrl-C.

The address goes to standard output. Without --token-file nothing can be changed from
the pages. With it one can log in, with that token and a name; each change then needs
a reason and is written to the audit log under that name.

Only loopback is listened on. With --listen-anywhere, or behind a proxy that is named
with --name, nothing is shown before a login either, and TLS is the proxy's work: a
browser keeps the session only over TLS then. --show-content also shows what is in the
frames, which quotes documents; it needs a database role that may read it.`

// consoleOptions are the flags of the console.
type consoleOptions struct {
	listen, tokenFile string
	anywhere, content bool
	openLess          bool
	names             []string
}

// shortestToken is how many characters a token has at least: it is all that keeps
// strangers out.
const shortestToken = 16

func (a *app) consoleVerb() *cobra.Command {
	var o consoleOptions
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the operator's pages", Long: consoleHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), o) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.tokenFile, "token-file", "", "`file` with the token of those who may act; without it the console is read-only")
	fs.BoolVar(&o.content, "show-content", false, "also show the content of frames, which quotes documents")
	fs.BoolVar(&o.anywhere, "listen-anywhere", false, "allow an address that is not loopback; needs --token-file")
	fs.StringSliceVar(&o.names, "name", nil, "a `name` by which a proxy asks for the console; needs --token-file")
	fs.BoolVar(&o.openLess, "open-less", false, "open no browser")
	return cmd
}

// outside reports whether others than this machine can reach the console.
func (o consoleOptions) outside() bool { return o.anywhere || len(o.names) > 0 }

// token reads the token, and refuses what would leave a door open.
func (o consoleOptions) token() (string, error) {
	host, _, err := net.SplitHostPort(o.listen)
	switch {
	case err != nil:
		return "", fail(exitUsage, "--listen %q: give HOST:PORT, like 127.0.0.1:8080: %w", o.listen, err)
	case !o.anywhere && !explorer.Loopback(host):
		return "", fail(exitUsage, "--listen %s is not loopback: give 127.0.0.1:PORT, or --listen-anywhere as well", o.listen)
	case o.tokenFile == "" && o.outside():
		return "", fail(exitUsage, "a console that others can reach needs --token-file: nothing is shown before a login then")
	case o.tokenFile == "":
		return "", nil
	}
	token, err := config.SecretFile(o.tokenFile).Read()
	if err != nil {
		return "", fail(exitUsage, "--token-file: %w", err)
	}
	if len([]rune(token)) < shortestToken {
		return "", fail(exitUsage, "--token-file: the token has fewer than %d characters: openssl rand -base64 24 makes a good one", shortestToken)
	}
	return token, nil
}

// host decides by which names the console answers.
func (o consoleOptions) host() func(string) bool {
	base := explorer.Loopback
	if o.anywhere {
		base = explorer.NoName
	}
	return func(name string) bool {
		return base(name) || slices.ContainsFunc(o.names, func(n string) bool { return strings.EqualFold(n, name) })
	}
}

// console serves until the context ends, as it does with a signal.
func (a *app) console(ctx context.Context, o consoleOptions) error {
	token, err := o.token()
	if err != nil {
		return err
	}
	db, err := a.options()
	if err != nil {
		return err
	}
	const most = 10 * time.Second // a page is not worth more of the database
	db.MaxConns, db.StatementTimeout = 4, min(most, db.StatementTimeout)
	pool, err := openPool(ctx, db)
	if err != nil {
		return err
	}
	defer pool.Close()
	c := console.New(console.Options{
		DB: pool, Host: o.host(), Local: explorer.Loopback, Token: token, Closed: o.outside(), ShowContent: o.content,
		Explorer: explorer.Handler(explorer.Options{Host: o.host()}), Log: slog.New(slog.NewTextHandler(a.stderr, nil)),
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen for the console: %w", err)
	}
	a.announce(ctx, listener, o.openLess)
	return serveConsole(ctx, listener, c)
}

// serveConsole serves, and keeps the pages live, until the context ends.
func serveConsole(ctx context.Context, listener net.Listener, c *console.Console) error {
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return c.Run(running) })
	g.Go(func() error { return servePages(running, listener, c.Handler()) })
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // asked to stop
	}
	return err
}

// servePages serves until the context ends, and what is asked for ends with it.
func servePages(ctx context.Context, listener net.Listener, pages http.Handler) error {
	srv := &http.Server{
		Handler: pages, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if err := web.Serve(ctx, srv, listener, 5*time.Second); err != nil {
		return fmt.Errorf("serve the pages: %w", err)
	}
	return nil
}
