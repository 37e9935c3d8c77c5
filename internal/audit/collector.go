package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// Options of a Collector; zero fields take the defaults.
type Options struct {
	// CacheFor is how long the ledger's figures are good, at least the interval of
	// scrapes; zero means 15 s. However many scrape, one query an interval is run.
	CacheFor time.Duration
	// Timeout bounds the figures' queries; zero means 2 s.
	Timeout time.Duration
	// CheckEvery is how often Run checks the invariants over the last hour; zero
	// means 1 min.
	CheckEvery time.Duration
	// WholeEvery is how often Run checks them over everything that is kept, which
	// reads whole tables; zero means 1 h.
	WholeEvery time.Duration
	// Check bounds the checks. Its Window and Refusals are set here, and its
	// Timeout is that of a check over the last hour; a whole one has a minute.
	Check CheckOptions
	// Log is told of checks that fail and of violations that are new; nil: nobody.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.CacheFor, 15*time.Second)
	set(&o.Timeout, 2*time.Second)
	set(&o.CheckEvery, time.Minute)
	set(&o.WholeEvery, time.Hour)
	set(&o.Check.Timeout, 5*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Collector exports the gauges that come from the ledger. The figures are read at
// a scrape and kept for CacheFor; the invariants are checked by Run on a schedule.
// Every worker may export them all: aggregate with max. What could not be read is
// absent, and counted by the scrape as a collector error.
type Collector struct {
	db    pg.DB
	opts  Options
	descs descs

	mu     sync.Mutex // held while figures are read: scrapers wait for one answer
	cached reading
	seen   position
	schedule
}

// position is how far the server's log was written, in one ledger epoch. It never goes
// back but with the data itself: a server that was started from a copy of its files
// looks like the one of before in everything else. Whoever was started later than the
// server cannot know.
type position struct {
	epoch, log int64
	back       bool
}

// follow takes the next look's position over and says whether the log went back in this
// epoch, now or earlier.
func (p *position) follow(epoch, log int64) bool {
	if epoch != p.epoch {
		*p = position{epoch: epoch}
	}
	p.back = p.back || log < p.log
	p.log = max(p.log, log)
	return p.back
}

// reading is one look at the ledger.
type reading struct {
	at      time.Time // of this process, monotonic
	figures figures
	ledger  outbox.Ledger
	back    bool // the server's log ends before where it was seen to
	schema  int
	skew    time.Duration
	err     error
}

// NewCollector makes a Collector; register it, and start Run.
func NewCollector(db pg.DB, o Options) *Collector {
	return &Collector{db: db, opts: o.withDefaults(), descs: newDescs()}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs.all() {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	r := c.read()
	if r.err != nil {
		for _, d := range c.descs.figures() {
			ch <- prometheus.NewInvalidMetric(d, r.err)
		}
	} else {
		c.descs.emit(ch, r)
	}
	c.emitInvariants(ch)
}

// read answers from the cache while it is good; an error is kept as long, so that
// a database in trouble is not asked at every scrape.
func (c *Collector) read() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cached.at.IsZero() && time.Since(c.cached.at) < c.opts.CacheFor {
		return c.cached
	}
	// A scrape hands over no context. Like that of bounded clean-up this one ends by
	// itself, soon after the statements' own timeout.
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.opts.Timeout)
	defer cancel()
	r := c.look(ctx)
	r.at = time.Now()
	if r.err != nil {
		c.opts.Log.WarnContext(ctx, "ledger gauges cannot be read", slog.String("err", pg.Text(r.err, 300)), slog.String("sqlstate", pg.SQLState(r.err)))
	}
	c.cached = r
	return r
}

func (c *Collector) look(ctx context.Context) (r reading) {
	if r.skew, r.err = Skew(ctx, c.db); r.err != nil {
		r.err = fmt.Errorf("audit.Collector: %w", r.err)
		return r
	}
	err := snapshot(ctx, c.db, c.opts.Timeout, func(tx pgx.Tx) (err error) {
		if r.schema, err = pg.Version(ctx, tx, "ops"); err != nil {
			return err
		}
		if r.ledger, err = outbox.ReadLedger(ctx, tx); err != nil {
			return err
		}
		var log int64
		if err := tx.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint`).Scan(&log); err != nil {
			return err
		}
		r.back = c.seen.follow(r.ledger.Epoch, log)
		r.figures, err = readFigures(ctx, tx)
		return err
	})
	if err != nil {
		r.err = fmt.Errorf("audit.Collector: %w", err)
	}
	return r
}

// errNotChecked makes an invariant's gauge absent.
var errNotChecked = errors.New("invariants were not checked lately")
