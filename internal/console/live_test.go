package console_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/console"
	"briefrail/internal/pg/pgtest"
)

// patience is how long anything may take.
const patience = 30 * time.Second

// counted counts the snapshots that are begun.
type counted struct {
	*pgxpool.Pool
	begun atomic.Int64
}

func (c *counted) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	c.begun.Add(1)
	return c.Pool.BeginTx(ctx, o)
}

// running serves a live console until the test ends.
func running(t *testing.T, every time.Duration) (*rig, *counted) {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t)
	pool := &counted{Pool: db.Pool}
	c := console.New(console.Options{DB: pool, Host: loopback, Local: loopback, Token: token, Every: every})
	srv := httptest.NewServer(c.Handler())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err == nil {
			t.Error("Run ends without an error")
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return &rig{DB: db, t: t, srv: srv, client: &http.Client{}}, pool
}

// listen opens a stream and returns its events' data.
func (r *rig) listen(place string) <-chan string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.srv.URL+"/live?of="+place, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("%v, %v", resp, err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	out := make(chan string, 100)
	go func() {
		defer close(out)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				out <- data
			}
		}
	}()
	return out
}

// hear waits for an event whose look is another one than before; its version stands
// before the space.
func hear(t *testing.T, events <-chan string, before string) string {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case data, ok := <-events:
			if look, _, _ := strings.Cut(data, " "); ok && look != before {
				return look
			}
			if !ok {
				t.Fatal("the stream has ended")
			}
		case <-end:
			t.Fatal("nothing is told")
		}
	}
}

func TestWatchersAreToldWhatChanges(t *testing.T) {
	r, _ := running(t, 20*time.Millisecond)
	k := newKey()
	r.demand(k)
	place := "matter%3Fof%3D" + strings.ReplaceAll(k.String(), "/", "%252F")
	start, matter := r.listen(""), r.listen(place)
	first, of := hear(t, start, ""), hear(t, matter, "")
	c := r.claim(k, "worker-a")
	first, of = hear(t, start, first), hear(t, matter, of)
	if err := r.land(c, `{"a":1}`); err != nil {
		t.Fatal(err)
	}
	hear(t, start, first)
	hear(t, matter, of)
}

func TestManyWatchersCostWhatOneCosts(t *testing.T) {
	r, pool := running(t, time.Hour) // so that each look has to be asked for
	var streams []<-chan string
	for range 30 {
		streams = append(streams, r.listen(""))
	}
	for _, s := range streams {
		hear(t, s, "")
	}
	before := pool.begun.Load()
	for range 30 {
		wants(t, r.get("/"), http.StatusOK, "Every Brief is current")
	}
	// the invariants are asked for by the first page, each in a snapshot of its own
	if n := pool.begun.Load() - before; n > 40 {
		t.Errorf("30 pages began %d snapshots", n)
	}
	for range 70 {
		r.listen("")
	}
	if a := r.get("/live?of="); a.status != http.StatusServiceUnavailable {
		t.Errorf("the 101st watcher: status %d", a.status)
	}
}

func TestLiveTakesOnlyPagesThatThereAre(t *testing.T) {
	r, _ := running(t, time.Hour)
	wants(t, r.get("/live?of=elsewhere"), http.StatusNotFound)
	wants(t, r.get("/live?of=runs%3Fcolour%3Dred"), http.StatusBadRequest, "does not know")
}

func TestInvariantsAreLookedAtInTheBackground(t *testing.T) {
	r, _ := running(t, time.Millisecond)
	r.demand(newKey())
	until(t, "the invariants hold", func() bool { return strings.Contains(words(r.get("/")), "hold over the last hour") })
}

func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	end, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("waited in vain: " + what)
		}
	}
}

// A database that is away is told, and no old look is shown in its place.
func TestADatabaseThatIsAwayIsSaid(t *testing.T) {
	r := newRig(t, func(o *console.Options) { o.Timeout = 2 * time.Second })
	wants(t, r.get("/"), http.StatusOK, "Every Brief is current")
	r.exec(`ALTER TABLE ops.matter_frame_jobs RENAME TO away`)
	wants(t, r.get("/"), http.StatusServiceUnavailable, "the database did not answer this", "Back to the start")
	r.exec(`ALTER TABLE ops.away RENAME TO matter_frame_jobs`)
	wants(t, r.get("/"), http.StatusOK, "Every Brief is current")
}
