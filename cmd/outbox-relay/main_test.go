package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

func (c *cloud) facts(t *testing.T, n int) {
	t.Helper()
	if _, err := c.db.Pool.Exec(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, $1)`, n); err != nil {
		t.Fatal(err)
	}
}

func (c *cloud) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := c.db.Pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *cloud) unpublished(t *testing.T) int {
	t.Helper()
	return c.count(t, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`)
}

// missing are the facts that the queue does not hold; it fails for one that the
// outbox does not have.
func (c *cloud) missing(t *testing.T) (ids []rail.UUID) {
	t.Helper()
	held := map[rail.UUID]bool{}
	for _, body := range c.Bodies("brief") {
		n, err := nudge.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		held[n.Event] = true
	}
	rows, err := c.db.Pool.Query(t.Context(), `SELECT event_id FROM ops.domain_event_outbox`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[rail.UUID])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		if !held[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for _, x := range []struct {
		code int
		says string
		env  []string
		args []string
	}{
		{daemon.ExitOK, "outbox-relay", nil, []string{"version"}},
		{daemon.ExitOK, "relay.sinks", nil, []string{"config", "show"}},
		{daemon.ExitOK, "is sound", nil, []string{"config", "validate"}},
		{daemon.ExitOK, "| `relay.lease` |", nil, []string{"config", "reference"}},
		{daemon.ExitUsage, "takes no argument", nil, []string{"run", "fast"}},
		{daemon.ExitUsage, "relay.queue_url", []string{"RAIL_RELAY_SINKS=[sqs]", "RAIL_RELAY_QUEUE_URL="}, []string{"run"}},
		{daemon.ExitUsage, "database.url", []string{"RAIL_DATABASE_URL=postgres://rail:s3cret@127.0.0.1/x?sslmode=perhaps"}, []string{"run"}},
		{daemon.ExitUnhealthy, "unhealthy", []string{"RAIL_ADMIN_LISTEN=127.0.0.1:1"}, []string{"healthcheck"}},
	} {
		p := launch(t, c.env(x.env...), x.args...)
		if code := p.code(t); code != x.code || !strings.Contains(p.said(), x.says) || strings.Contains(p.said(), "s3cret") {
			t.Errorf("%v: exit %d:\n%s", x.args, code, p.said())
		}
	}
}

func TestFactsReachTheQueueAndAStopIsClean(t *testing.T) {
	t.Parallel()
	for _, sink := range []string{"eventbridge", "sqs"} {
		t.Run(sink, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.facts(t, 200)
			p := started(t, c.env("RAIL_RELAY_SINKS=["+sink+"]"))
			eventually(t, "published", func() bool { return c.unpublished(t) == 0 })
			if m := c.missing(t); len(m) > 0 || len(c.Bodies("brief")) != 200 {
				t.Errorf("%d missing, %d in the queue", len(m), len(c.Bodies("brief")))
			}
			if status, body := p.ask("/readyz"); status != http.StatusOK {
				t.Errorf("not ready: %s", body)
			}
			if _, body := p.ask("/metrics"); !strings.Contains(body, "rail_outbox_published_total 200") ||
				!strings.Contains(body, `rail_sink_paused{sink="`+sink+`"} 0`) || !strings.Contains(body, "rail_outbox_parked_rows 0") {
				t.Errorf("metrics:\n%s", body)
			}
			if h := launch(t, c.env("RAIL_ADMIN_LISTEN="+p.admin()), "healthcheck"); h.code(t) != daemon.ExitOK {
				t.Errorf("healthcheck: %s", h.said())
			}
			p.signal(syscall.SIGTERM)
			if code := p.code(t); code != daemon.ExitOK {
				t.Errorf("exit %d", code)
			}
			if n := c.count(t, `SELECT count(*) FROM ops.outbox_bucket_leases WHERE holder IS NOT NULL`); n != 0 {
				t.Errorf("%d buckets kept", n)
			}
		})
	}
}

// field report 13, with processes: one relay of three is killed between an answer and
// its mark, one is stopped past its lease and continued. Every fact arrives, and all
// go on.
func TestOneIsKilledAndOneSleeps(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	one := started(t, c.env())
	c.Script("PutEvents", awsfake.AcceptThenHang(), awsfake.AcceptThenHang(), awsfake.AcceptThenHang(), awsfake.AcceptThenHang())
	c.facts(t, 400)
	eventually(t, "taken and not answered", func() bool { return len(c.Bodies("brief")) >= 40 })
	two, three := started(t, c.env()), started(t, c.env())
	one.signal(syscall.SIGKILL)
	<-one.exited
	eventually(t, "published by the others", func() bool { return c.unpublished(t) == 0 })

	two.signal(syscall.SIGSTOP)
	c.facts(t, 300)
	began := time.Now()
	eventually(t, "published by the one that is awake", func() bool { return c.unpublished(t) == 0 })
	if took := time.Since(began); took > 2*time.Second+3*time.Second {
		t.Errorf("the sleeper's buckets took %s to move, with a lease of 2s", took)
	}
	two.signal(syscall.SIGCONT)
	c.facts(t, 100)
	eventually(t, "published by both", func() bool {
		return c.unpublished(t) == 0 && c.count(t, `SELECT count(*) FROM (SELECT holder FROM ops.outbox_bucket_leases GROUP BY 1 HAVING count(*) = 32) x`) == 2
	})
	if m := c.missing(t); len(m) > 0 {
		t.Errorf("%d facts never arrived", len(m))
	}
	for _, p := range []*process{two, three} {
		p.signal(syscall.SIGTERM)
		if code := p.code(t); code != daemon.ExitOK {
			t.Errorf("exit %d", code)
		}
	}
}

// Expired credentials: one clear error, not ready, and it recovers by itself.
func TestExpiredCredentials(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.Always("PutEvents", 1, awsfake.ExpiredCredentials())
	c.facts(t, 50)
	p := started(t, c.env())
	eventually(t, "not ready", func() bool {
		status, body := p.ask("/readyz?verbose")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "sink: paused until") && strings.Contains(body, "ExpiredToken")
	})
	if n := c.count(t, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
		t.Errorf("%d facts are blamed", n)
	}
	c.Clear()
	eventually(t, "published", func() bool { return c.unpublished(t) == 0 })
	eventually(t, "ready", func() bool { status, _ := p.ask("/readyz"); return status == http.StatusOK })
	if n := strings.Count(p.said(), "sink paused"); n != 1 {
		t.Errorf("%d errors in the log", n)
	}
}

// Throttling: the rate of calls falls, nothing is lost, and the backlog drains.
func TestThrottling(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.Always("PutEvents", 1, awsfake.Throttle())
	c.facts(t, 2000)
	p := started(t, c.env())
	eventually(t, "slow", func() bool {
		before := c.Calls("PutEvents")
		<-time.After(2 * time.Second)
		return c.Calls("PutEvents")-before <= 5
	})
	c.Clear()
	c.Always("PutEvents", 0.5, awsfake.Throttle())
	eventually(t, "some published", func() bool { return c.unpublished(t) < 1900 })
	c.Clear()
	eventually(t, "all published", func() bool { return c.unpublished(t) == 0 })
	if m := c.missing(t); len(m) > 0 {
		t.Errorf("%d facts never arrived", len(m))
	}
	if _, body := p.ask("/metrics"); !strings.Contains(body, `rail_outbox_publish_failures_total{code="ThrottlingException"}`) {
		t.Error("not counted by code")
	}
}
