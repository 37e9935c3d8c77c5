package config

import (
	"time"

	"briefrail/internal/rail"
)

// Component is one of the rail's programs.
type Component string

// The programs that read this configuration.
const (
	Worker  Component = "railworker"
	Relay   Component = "outbox-relay"
	Control Component = "railctl"
)

// Config is the validated configuration of one process. It is made by Load only
// and not changed afterwards.
type Config struct {
	Settings
	component Component
	origin    map[string]string
}

// Component returns the program that the configuration was loaded for.
func (c *Config) Component() Component { return c.component }

// Settings holds a field for every setting of the table, under the same names.
// Durations are durations, sizes are bytes.
type Settings struct {
	Worker   WorkerSettings    `mapstructure:"worker"`
	Lease    LeaseSettings     `mapstructure:"lease"`
	Sweep    SweepSettings     `mapstructure:"sweep"`
	Retry    RetrySettings     `mapstructure:"retry"`
	Settle   SettleSettings    `mapstructure:"settle"`
	Database DatabaseSettings  `mapstructure:"database"`
	Frames   FramesSettings    `mapstructure:"frames"`
	Runs     RetentionSettings `mapstructure:"runs"`
	Outbox   RetentionSettings `mapstructure:"outbox"`
	Receipts RetentionSettings `mapstructure:"receipts"`
	Canary   CanarySettings    `mapstructure:"canary"`
	Builder  BuilderSettings   `mapstructure:"builder"`
	Dispatch DispatchSettings  `mapstructure:"dispatch"`
	Poll     PollSettings      `mapstructure:"poll"`
	Trigger  TriggerSettings   `mapstructure:"trigger"`
	Relay    RelaySettings     `mapstructure:"relay"`
	AWS      AWSSettings       `mapstructure:"aws"`
	Admin    AdminSettings     `mapstructure:"admin"`
	API      APISettings       `mapstructure:"api"`
	Console  bool              `mapstructure:"console"`
	Log      LogSettings       `mapstructure:"log"`
	Tracing  TracingSettings   `mapstructure:"tracing"`
}

// WorkerSettings describe one worker process. An empty Name means host and
// process id.
type WorkerSettings struct {
	Name      string        `mapstructure:"name"`
	Slots     int           `mapstructure:"slots"`
	StopGrace time.Duration `mapstructure:"stop_grace"`
}

// LeaseSettings say how long a claim may stay silent.
type LeaseSettings struct {
	Duration time.Duration `mapstructure:"duration"`
	Renew    bool          `mapstructure:"renew"`
}

// SweepSettings pace the search for expired leases.
type SweepSettings struct {
	Every time.Duration `mapstructure:"every"`
	Batch int           `mapstructure:"batch"`
}

// RetrySettings bound the attempts of one job.
type RetrySettings struct {
	MaxAttempts int           `mapstructure:"max_attempts"`
	Backoff     time.Duration `mapstructure:"backoff"`
	BackoffMax  time.Duration `mapstructure:"backoff_max"`
}

// SettleSettings say how long new demand waits for more of its kind.
type SettleSettings struct {
	Quiet   time.Duration `mapstructure:"quiet"`
	MaxWait time.Duration `mapstructure:"max_wait"`
}

// DatabaseSettings say where PostgreSQL is and how it is used. The connection
// string comes from DSN and Password, which read their files each time.
type DatabaseSettings struct {
	URL              string        `mapstructure:"url"`
	URLFile          SecretFile    `mapstructure:"url_file"`
	PasswordFile     SecretFile    `mapstructure:"password_file"`
	MaxConns         int           `mapstructure:"max_conns"`
	ConnectTimeout   time.Duration `mapstructure:"connect_timeout"`
	StatementTimeout time.Duration `mapstructure:"statement_timeout"`
	StatementCache   int           `mapstructure:"statement_cache"`
}

// FramesSettings bound how many landed frames of a matter are kept.
type FramesSettings struct {
	Keep int `mapstructure:"keep"`
}

// RetentionSettings say how long done rows of one table are kept.
type RetentionSettings struct {
	Retention time.Duration `mapstructure:"retention"`
}

// CanarySettings pace the canary; zero is off.
type CanarySettings struct {
	Every time.Duration `mapstructure:"every"`
}

// BuilderSettings choose and bound the builder. Kind is "http" or "exec".
type BuilderSettings struct {
	Kind          string        `mapstructure:"kind"`
	Timeout       time.Duration `mapstructure:"timeout"`
	IdleTimeout   time.Duration `mapstructure:"idle_timeout"`
	MaxFrameBytes int64         `mapstructure:"max_frame_bytes"`
	HTTP          HTTPBuilder   `mapstructure:"http"`
	Exec          ExecBuilder   `mapstructure:"exec"`
}

// HTTPBuilder is the build service that kind http calls.
type HTTPBuilder struct {
	URL       string     `mapstructure:"url"`
	TokenFile SecretFile `mapstructure:"token_file"`
}

// ExecBuilder is the command that kind exec runs, program first.
type ExecBuilder struct {
	Command []string `mapstructure:"command"`
}

// DispatchSettings limit running builds across the fleet; zero is off.
type DispatchSettings struct {
	PerFirm int `mapstructure:"per_firm"`
	Total   int `mapstructure:"total"`
}

// PollSettings bound how long an idle loop waits before it looks again.
type PollSettings struct {
	MaxIdle time.Duration `mapstructure:"max_idle"`
}

// TriggerSettings turn facts into demand. Source is "ledger" or "sqs"; Grace is
// zero when the ledger is the source.
type TriggerSettings struct {
	Source        string        `mapstructure:"source"`
	Grace         time.Duration `mapstructure:"grace"`
	Rules         []Rule        `mapstructure:"rules"`
	OpenMatterSQL string        `mapstructure:"open_matter_sql"`
	DisabledFirms []rail.UUID   `mapstructure:"disabled_firms"`
	QueueURL      string        `mapstructure:"queue_url"`
	Receivers     int           `mapstructure:"receivers"`
	PollWait      time.Duration `mapstructure:"poll_wait"`
}

// AWSSettings say where AWS is; empty fields leave it to the SDK.
type AWSSettings struct {
	Endpoint string `mapstructure:"endpoint"`
	Region   string `mapstructure:"region"`
}

// Rule makes facts of one name demand a rebuild. Settle is that of
// settle.quiet where the rule names none.
type Rule struct {
	Name     rail.EventName
	Priority rail.Priority
	Settle   time.Duration
}

// RelaySettings say where the relay sends facts and how fast. Sinks are "eventbridge"
// and "sqs", or "none" alone.
type RelaySettings struct {
	Sinks       []string      `mapstructure:"sinks"`
	EventBus    string        `mapstructure:"event_bus"`
	QueueURL    string        `mapstructure:"queue_url"`
	EventSource string        `mapstructure:"event_source"`
	BatchBytes  int64         `mapstructure:"batch_bytes"`
	Inflight    int           `mapstructure:"inflight"`
	MaxIdle     time.Duration `mapstructure:"max_idle"`
	Lease       time.Duration `mapstructure:"lease"`
	Timeout     time.Duration `mapstructure:"timeout"`
	Backoff     time.Duration `mapstructure:"backoff"`
	BackoffMax  time.Duration `mapstructure:"backoff_max"`
}

// AdminSettings place the listener for metrics and probes; an empty Listen is
// off. Username and PasswordFile together turn on basic auth.
type AdminSettings struct {
	Listen       string     `mapstructure:"listen"`
	Username     string     `mapstructure:"username"`
	PasswordFile SecretFile `mapstructure:"password_file"`
}

// APISettings place the interface of intents; an empty Listen is off. CertificateFile
// and KeyFile together turn on TLS.
type APISettings struct {
	Listen          string     `mapstructure:"listen"`
	TokenFile       SecretFile `mapstructure:"token_file"`
	CertificateFile SecretFile `mapstructure:"certificate_file"`
	KeyFile         SecretFile `mapstructure:"key_file"`
}

// LogSettings: Level is debug, info, warn or error; Format is auto, json or text.
type LogSettings struct {
	Level  string `mapstructure:"level"`
	Format string `mapstructure:"format"`
}
