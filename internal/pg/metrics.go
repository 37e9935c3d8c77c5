package pg

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics holds the counters that every pool of a process shares.
type Metrics struct {
	errors  *prometheus.CounterVec
	refused prometheus.Counter
}

// NewMetrics makes the counters and registers them. A registry takes them once.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_db_errors_total",
			Help: "Statements and connection attempts that failed, by SQLSTATE class; client is everything without an SQLSTATE.",
		}, []string{"class"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rail_db_read_only_sessions_total",
			Help: "Sessions discarded or refused because the server does not take writes.",
		}),
	}
	for _, c := range Classes() {
		m.errors.WithLabelValues(c)
	}
	reg.MustRegister(m.errors, m.refused)
	return m
}

// failed counts err under its class.
func (m *Metrics) failed(err error) {
	if m != nil && err != nil {
		m.errors.WithLabelValues(Class(err)).Inc()
	}
}

func (m *Metrics) readOnly() {
	if m != nil {
		m.refused.Inc()
	}
}

// collector reads a pool's own statistics at scrape time; it needs no session.
type collector struct {
	pool  *pgxpool.Pool
	stats []stat
}

type stat struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*pgxpool.Stat) float64
}

// NewCollector exports rail_db_pool_* for one pool under the label pool, whose
// values are the names that the binary gives to its few pools.
func NewCollector(name string, pool *pgxpool.Pool) prometheus.Collector {
	c := &collector{pool: pool}
	add := func(metric, help string, kind prometheus.ValueType, read func(*pgxpool.Stat) float64) {
		d := prometheus.NewDesc("rail_db_pool_"+metric, help, nil, prometheus.Labels{"pool": name})
		c.stats = append(c.stats, stat{d, kind, read})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add("acquired_conns", "Sessions in use.", gauge, func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) })
	add("idle_conns", "Sessions open and not in use.", gauge, func(s *pgxpool.Stat) float64 { return float64(s.IdleConns()) })
	add("total_conns", "Sessions open or being opened.", gauge, func(s *pgxpool.Stat) float64 { return float64(s.TotalConns()) })
	add("max_conns", "Most sessions the pool may open.", gauge, func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) })
	add("acquire_count_total", "Sessions handed out.", counter, func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) })
	add("empty_acquire_count_total", "Acquires that had to wait or to connect.", counter, func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) })
	add("canceled_acquire_count_total", "Acquires given up before a session was free.", counter, func(s *pgxpool.Stat) float64 { return float64(s.CanceledAcquireCount()) })
	add("acquire_duration_seconds_total", "Time spent acquiring sessions.", counter, func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() })
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.stats {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	now := c.pool.Stat()
	for _, s := range c.stats {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.read(now))
	}
}
