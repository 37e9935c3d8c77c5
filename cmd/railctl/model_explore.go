package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"briefrail/cmd/internal/explorer"
)

const modelExploreHelp = `Serve a page on which the models can be walked by hand: every step that may be taken is
a button, every defence a switch. It ends with Ctrl-C.

The address goes to standard output. On a desktop the page is opened in the browser,
unless --open-less is given. Only loopback is listened on: the page asks for no
password, and a check costs a core for seconds.`

// exploreOptions are the flags of explore.
type exploreOptions struct {
	listen   string
	openLess bool
	anywhere bool
}

func (a *app) modelExploreVerb() *cobra.Command {
	var o exploreOptions
	cmd := &cobra.Command{
		Use: "explore", Short: "Serve a page on which the models can be walked by hand", Long: modelExploreHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.modelExplore(cmd.Context(), o) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	fs.BoolVar(&o.openLess, "open-less", false, "open no browser")
	fs.BoolVar(&o.anywhere, "listen-anywhere", false, "allow an address that is not loopback: everybody who reaches it can use the page")
	return cmd
}

// modelExplore serves until the context ends, as it does with a signal.
func (a *app) modelExplore(ctx context.Context, o exploreOptions) error {
	if err := o.loopback(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen for the page: %w", err)
	}
	page := explorer.Options{}
	if o.anywhere {
		page.Host = explorer.NoName
	}
	a.announce(ctx, listener, o.openLess)
	return servePages(ctx, listener, explorer.Handler(page))
}

// loopback refuses any other address unless it was asked for in so many words.
func (o exploreOptions) loopback() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fail(exitUsage, "--listen %q: give HOST:PORT, like 127.0.0.1:8080: %w", o.listen, err)
	}
	if !o.anywhere && !explorer.Loopback(host) {
		return fail(exitUsage, "--listen %s is not loopback, and the page asks for no password: give 127.0.0.1:PORT, or --listen-anywhere as well", o.listen)
	}
	return nil
}

// announce says where the pages are, and shows them.
func (a *app) announce(ctx context.Context, listener net.Listener, openLess bool) {
	url := "http://" + listener.Addr().String() + "/"
	fmt.Fprintln(a.stdout, url)
	if !openLess && a.watched {
		a.browse(ctx, url)
	}
}

// browse shows the page where there is a desktop. A browser that does not start is
// no fault: the address is printed.
func (a *app) browse(ctx context.Context, url string) {
	var argv []string
	switch {
	case runtime.GOOS == "darwin":
		argv = []string{"open", url}
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	case a.lookup("DISPLAY") != "" || a.lookup("WAYLAND_DISPLAY") != "":
		argv = []string{"xdg-open", url}
	default:
		return
	}
	if cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // only reaps it: the browser is the user's and may stay
	}
}
