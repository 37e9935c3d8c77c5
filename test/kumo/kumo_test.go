package kumo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	emulator "github.com/sivchari/kumo"

	"briefrail/internal/nudge/nudgetest"
)

// address is where the emulator's bus posts what it delivers.
const address = "127.0.0.1:4566"

// childVariable makes this test binary be the emulator.
const childVariable = "RAIL_TEST_KUMO_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for _, pair := range nudgetest.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// serve is the emulator behind the one address that its bus knows. It ends with a
// signal, or with its standard input, so that it never outlives the test.
func serve() error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := emulator.NewServer()
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	front := &http.Server{
		Handler:           &counting{next: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}, calls: map[string]int{}},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		<-ctx.Done()
		_ = front.Close() // the test is over
	}()
	fmt.Println("ready")
	if err := front.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// callsPath is where the emulator's front tells what it was asked, by the name of the
// call.
const callsPath = "/_calls"

// counting stands in front of the emulator, which cannot say itself what it was asked.
type counting struct {
	next http.Handler

	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != callsPath {
		c.mu.Lock()
		c.calls[r.Header.Get("X-Amz-Target")]++
		c.mu.Unlock()
		c.next.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = json.NewEncoder(w).Encode(c.calls) // a test that went away needs no answer
}

// start runs the emulator for one test.
func start(t *testing.T) string {
	t.Helper()
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		t.Skipf("something listens on %s already: the emulator's bus delivers there and nowhere else", address)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it was told to end
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the emulator did not start: %q, %v", line, err)
	}
	return "http://" + address
}

func TestContractOnKumo(t *testing.T) {
	nudgetest.Contract(t.Context(), t, start(t), nudgetest.Lacks{Redrive: true})
}
