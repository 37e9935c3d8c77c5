package config

import (
	"fmt"
	"slices"
	"time"
)

const (
	// leaseMargin is what a lease that is not renewed must leave for claiming and
	// landing after the longest build.
	leaseMargin = 30 * time.Second
	// workerConns is the loops of a worker that hold a connection at once (claim,
	// sweep, trigger) and two to spare.
	workerConns = 5
	// relayConns is the same of a relay: lease, read and write down.
	relayConns = 4
	// deadLetterDays is how long a dead-letter queue can keep a nudge.
	deadLetterDays = 14 * day
)

// derive fills what defaults leave to other settings. Only defaults give way;
// what an operator wrote is kept or refused.
func (c *Config) derive() {
	for i := range c.Trigger.Rules {
		if c.Trigger.Rules[i].Settle == settleUnset {
			c.Trigger.Rules[i].Settle = c.Settle.Quiet
		}
	}
	if c.isDefault("trigger.grace") && c.Trigger.Source == "ledger" {
		c.Trigger.Grace = 0
	}
	if c.isDefault("builder.idle_timeout") {
		c.Builder.IdleTimeout = min(c.Builder.IdleTimeout, c.Builder.Timeout)
	}
}

func (c *Config) isDefault(key string) bool { return c.origin[key] == "default" }

// Validate checks the settings of c's program against each other and that its
// secret files can be read. Load has called it already; "config validate" calls
// it for people.
func (c *Config) Validate() error {
	var ps problems
	k := checker{c, &ps}
	k.database()
	k.secretFiles()
	k.admin()
	k.tracing()
	if c.component == Relay {
		k.relay()
	}
	if c.component == Worker {
		k.lease()
		k.order()
		k.builder()
		k.trigger()
		k.api()
		k.notYet()
	}
	return ps.err()
}

// checker adds a problem where a rule between settings does not hold.
type checker struct {
	*Config
	ps *problems
}

func (k checker) must(holds bool, key, fault, want string) {
	if !holds {
		k.ps.add(Problem{Key: key, Origin: k.origin[key], Fault: fault, Want: want})
	}
}

func (k checker) database() {
	d := k.Database
	k.must(k.component == Control || d.URL != "" || d.URLFile != "", "database.url", "is not set",
		"set it (RAIL_DATABASE_URL) or database.url_file (RAIL_DATABASE_URL_FILE)")
	k.must(d.URL == "" || d.URLFile == "", "database.url", "is set together with database.url_file ("+k.origin["database.url_file"]+")", "keep one of them")
	k.must(k.component != Worker || d.MaxConns >= workerConns, "database.max_conns",
		fmt.Sprintf("is %d, too few for the worker's loops", d.MaxConns), fmt.Sprintf("write at least %d", workerConns))
}

// secretFiles opens every secret file that the program will need.
func (k checker) secretFiles() {
	for _, s := range table() {
		f, ok := k.value(s.key).(SecretFile)
		if !ok || !s.usedBy(k.component) {
			continue
		}
		_, err := f.Read()
		k.must(err == nil, s.key, fmt.Sprint(err), "write "+s.kind.want)
	}
}

func (k checker) admin() {
	a := k.Admin
	if k.component == Worker || k.component == Relay {
		k.must((a.Username == "") == (a.PasswordFile == ""), "admin.username", "and admin.password_file go together", "set both or neither")
	}
}

func (k checker) tracing() {
	t := k.Tracing
	k.must(t.Headers == "" || t.HeadersFile == "", "tracing.headers_file", "is set together with tracing.headers ("+k.origin["tracing.headers"]+")", "keep one of them")
	if t.HeadersFile != "" && k.component != Control {
		_, err := t.HeaderPairs()
		k.must(err == nil, "tracing.headers_file", fmt.Sprint(err), "write name=value,name=value into it")
	}
	k.must(t.Batch <= t.Queue, "tracing.batch", fmt.Sprintf("is %d, more than tracing.queue (%d)", t.Batch, t.Queue), "lower it or raise tracing.queue")
}

func (k checker) lease() {
	least := k.Builder.Timeout + leaseMargin
	k.must(k.Lease.Renew || k.Lease.Duration >= least, "lease.duration",
		fmt.Sprintf("is %s, shorter than builder.timeout (%s) + %s while lease.renew is off: every long build would be done twice",
			formatDuration(k.Lease.Duration), formatDuration(k.Builder.Timeout), formatDuration(leaseMargin)),
		"write at least "+formatDuration(least)+", or turn lease.renew on")
}

// order checks pairs of which the first must not exceed the second.
func (k checker) order() {
	k.atMost("retry.backoff", k.Retry.Backoff, "retry.backoff_max", k.Retry.BackoffMax)
	k.atMost("settle.quiet", k.Settle.Quiet, "settle.max_wait", k.Settle.MaxWait)
	k.atMost("builder.idle_timeout", k.Builder.IdleTimeout, "builder.timeout", k.Builder.Timeout)
	k.atMost("outbox.retention", k.Outbox.Retention, "receipts.retention", k.Receipts.Retention)
	k.must(k.Receipts.Retention > deadLetterDays, "receipts.retention",
		"is "+formatDuration(k.Receipts.Retention)+", but a nudge can return from a dead-letter queue after 14d", "write at least 15d")
	k.must(k.Dispatch.Total == 0 || k.Dispatch.PerFirm <= k.Dispatch.Total, "dispatch.per_firm",
		fmt.Sprintf("is %d, more than dispatch.total (%d)", k.Dispatch.PerFirm, k.Dispatch.Total), "lower it or raise dispatch.total")
}

func (k checker) atMost(key string, d time.Duration, other string, limit time.Duration) {
	k.must(d <= limit, key, fmt.Sprintf("is %s, more than %s (%s)", formatDuration(d), other, formatDuration(limit)),
		"lower it or raise "+other)
}

func (k checker) builder() {
	b := k.Builder
	k.must(b.Kind != "http" || b.HTTP.URL != "", "builder.http.url", "is not set, and builder.kind is http",
		"set it (RAIL_BUILDER_HTTP_URL), or choose builder.kind exec")
	k.must(k.Trigger.Source != "sqs" || k.Trigger.QueueURL != "", "trigger.queue_url", "is not set, and trigger.source is sqs",
		"set it (RAIL_TRIGGER_QUEUE_URL), or choose trigger.source ledger")
	k.must(k.Trigger.PollWait%time.Second == 0, "trigger.poll_wait", "is "+formatDuration(k.Trigger.PollWait)+", but a poll waits whole seconds", "write for example 10s")
	k.must(b.Kind != "exec" || len(b.Exec.Command) > 0, "builder.exec.command", "is empty, and builder.kind is exec",
		`write a list such as ["/usr/bin/build"] (RAIL_BUILDER_EXEC_COMMAND)`)
}

func (k checker) trigger() {
	k.must(k.Trigger.Source != "ledger" || k.Trigger.Grace == 0, "trigger.grace",
		"would delay every fact, since trigger.source is ledger", "write 0 or remove it")
	for _, r := range k.Trigger.Rules {
		k.must(r.Settle <= k.Settle.MaxWait, "trigger.rules",
			fmt.Sprintf("settle of %s is %s, more than settle.max_wait (%s)", r.Name, formatDuration(r.Settle), formatDuration(k.Settle.MaxWait)),
			"lower it or raise settle.max_wait")
	}
}

func (k checker) relay() {
	r := k.Relay
	k.must(len(r.Sinks) > 0, "relay.sinks", "is empty", "write [none] for a relay that sends nothing")
	k.must(!slices.Contains(r.Sinks, "none") || len(r.Sinks) == 1, "relay.sinks", "has none beside a sink", "remove none or the others")
	k.must(!slices.Contains(r.Sinks, "sqs") || r.QueueURL != "", "relay.queue_url", "is not set, and relay.sinks has sqs", "set it (RAIL_RELAY_QUEUE_URL)")
	k.must(r.MaxIdle <= r.Lease, "relay.max_idle", "is longer than relay.lease", "lower it or raise relay.lease")
	k.atMost("relay.backoff", r.Backoff, "relay.backoff_max", r.BackoffMax)
	k.must(k.Database.MaxConns >= relayConns, "database.max_conns", fmt.Sprintf("is %d, too few for the relay's loops", k.Database.MaxConns),
		fmt.Sprintf("write at least %d", relayConns))
}

// api checks the interface of intents. Each of its requests takes a session of the
// pool, and the loops keep theirs.
func (k checker) api() {
	a := k.API
	k.must(a.Listen == "" || a.TokenFile != "", "api.token_file", "is not set, and api.listen is: nobody could be let in", "set it (RAIL_API_TOKEN_FILE)")
	k.must((a.CertificateFile == "") == (a.KeyFile == ""), "api.certificate_file", "and api.key_file go together", "set both or neither")
	for key, f := range map[string]SecretFile{"api.token_file": a.TokenFile, "api.key_file": a.KeyFile} {
		if _, err := f.Read(); err == nil { // or else it is said already
			_, err = f.ReadPrivate()
			k.must(err == nil, key, fmt.Sprint(err), "keep it from others")
		}
	}
	k.must(a.Listen == "" || k.Database.MaxConns > workerConns, "database.max_conns",
		fmt.Sprintf("is %d, which leaves none for api.listen beside the worker's loops", k.Database.MaxConns), fmt.Sprintf("write at least %d", workerConns+1))
}

// Spare is how many sessions of the pool a worker's loops leave to others.
func (d DatabaseSettings) Spare() int { return max(0, d.MaxConns-workerConns) }

// notYet refuses what a daemon will not do, rather than ignore it.
func (k checker) notYet() {
	k.must(!k.Console, "console", "is not served by a daemon", "write off and start `railctl console`")
}
