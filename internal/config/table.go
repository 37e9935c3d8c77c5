package config

// table returns every setting of every program, in the order of the reference
// document. It is the only place where a setting is described.
func table() []setting {
	return slicesOf(
		workerTable(), jobTable(), databaseTable(), retentionTable(),
		builderTable(), triggerTable(), relayTable(), awsTable(), serverTable(), tracingTable(),
	)
}

func slicesOf(parts ...[]setting) (all []setting) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func worker() []Component { return []Component{Worker} }
func relay() []Component  { return []Component{Relay} }
func daemon() []Component { return []Component{Worker, Relay} }
func anyone() []Component { return []Component{Worker, Relay, Control} }

// ledger names the programs that move the ledger: the worker, and railctl where an
// operator's command does what a worker would.
func ledger() []Component { return []Component{Worker, Control} }

func workerTable() []setting {
	return []setting{
		{
			key: "worker.name", kind: text(0, 100), used: worker(),
			doc: "Name of this worker in the run rows; empty: host name and process id.",
		},
		{
			key: "worker.slots", kind: integer(1, 10000), initial: "16", used: worker(),
			doc: "Builds that one worker process runs at once.",
		},
		{
			key: "worker.stop_grace", kind: duration("0", "109s"), initial: "20s", used: worker(),
			doc: "How long running builds may still finish after a stop signal; then their claims are handed back. The platform's own grace must be 30s longer.",
		},
		{
			key: "poll.max_idle", kind: duration("10ms", "1m"), initial: "1s", used: worker(),
			doc: "Longest pause of an idle worker before it looks for work again.",
		},
		{
			key: "canary.every", kind: duration("0", "1h").off("0"), initial: "1m", used: worker(),
			doc: "How often the whole fleet gives the canary matter one fact; off (or 0) stops it.",
		},
	}
}

func jobTable() []setting {
	return []setting{
		{
			key: "lease.duration", kind: duration("500ms", "1d"), initial: "60s", used: ledger(),
			doc: "How long a claim may stay silent. Use one value in the whole fleet.",
		},
		{
			key: "lease.renew", kind: boolean(), initial: "on", used: worker(),
			doc: "Renew the lease at every third of it while a build runs. When off, the lease must outlast builder.timeout by 30s.",
		},
		{
			key: "sweep.every", kind: duration("10ms", "1m"), initial: "1s", used: worker(),
			doc: "How often a worker looks for expired leases (jittered).",
		},
		{
			key: "sweep.batch", kind: integer(1, 10000), initial: "100", used: worker(),
			doc: "Expired claims that one sweep takes at most.",
		},
		{
			key: "retry.max_attempts", kind: integer(1, 100), initial: "6", used: ledger(),
			doc: "Attempts of a job since its last landing before it is parked.",
		},
		{
			key: "retry.backoff", kind: duration("10ms", "1d"), initial: "5s", used: ledger(),
			doc: "First wait after a failed attempt; doubles each time, with full jitter.",
		},
		{
			key: "retry.backoff_max", kind: duration("10ms", "1d"), initial: "10m", used: ledger(),
			doc: "Longest wait between two attempts.",
		},
		{
			key: "settle.quiet", kind: duration("0", "1h"), initial: "5s", used: ledger(),
			doc: "Quiet time that new demand waits for, so that documents uploaded together are one build; 0 turns it off. Interactive demand skips it.",
		},
		{
			key: "settle.max_wait", kind: duration("0", "1d"), initial: "60s", used: ledger(),
			doc: "Longest time that demand waits for quiet.",
		},
		{
			key: "dispatch.per_firm", kind: integer(0, 100000).off("0"), initial: "off", used: worker(),
			doc: "Running builds of one firm in the whole fleet, exact; off (or 0): no limit.",
		},
		{
			key: "dispatch.total", kind: integer(0, 100000).off("0"), initial: "off", used: worker(),
			doc: "Running builds in the whole fleet, exact; off (or 0): no limit.",
		},
	}
}

func databaseTable() []setting {
	return []setting{
		{
			key: "database.url", kind: text(0, 4096), secret: true, used: anyone(),
			doc: "Connection string of PostgreSQL (postgres://… or key=value). Give this or database.url_file, not both.",
		},
		{
			key: "database.url_file", kind: secretFile(), used: anyone(),
			doc: "File that holds the connection string; read at the start. A password that rotates belongs into database.password_file.",
		},
		{
			key: "database.password_file", kind: secretFile(), used: anyone(),
			doc: "File that holds the password, in place of one in the connection string; read again at each connect.",
		},
		{
			key: "database.max_conns", kind: integer(2, 1000), initial: "8", used: anyone(),
			doc: "Size of the connection pool. Builds hold no connection; a worker needs at least 5 for its loops.",
		},
		{
			key: "database.connect_timeout", kind: duration("100ms", "5m"), initial: "10s", used: anyone(),
			doc: "Longest wait for a new connection, and for one of the pool.",
		},
		{
			key: "database.statement_timeout", kind: duration("100ms", "1h"), initial: "30s", used: anyone(),
			doc: "Longest time for one statement.",
		},
		{
			key: "database.statement_cache", kind: integer(0, 10000), initial: "256", used: anyone(),
			doc: "Prepared statements kept on a connection; 0 behind a transaction-mode pooler that cannot keep them.",
		},
	}
}

func retentionTable() []setting {
	return []setting{
		{
			key: "frames.keep", kind: integer(1, 10000), initial: "10", used: worker(),
			doc: "Landed frames kept for a matter, the current one included.",
		},
		{
			key: "runs.retention", kind: duration("1d", "3650d"), initial: "90d", used: worker(),
			doc: "How long ended runs are kept; the run of the current frame always is.",
		},
		{
			key: "outbox.retention", kind: duration("1h", "3650d"), initial: "7d", used: worker(),
			doc: "How long facts that are done are kept; others are never deleted.",
		},
		{
			key: "receipts.retention", kind: duration("1h", "3650d"), initial: "30d", used: worker(),
			doc: "How long receipts are kept. Longer than the 14d a dead-letter queue can hold a nudge, so that one that returns is still recognised.",
		},
	}
}

func builderTable() []setting {
	return []setting{
		{
			key: "builder.kind", kind: choice("http", "exec"), initial: "http", used: worker(),
			doc: "What builds frames: a service over HTTP, or a command.",
		},
		{
			key: "builder.timeout", kind: duration("100ms", "1d"), initial: "15m", used: worker(),
			doc: "Longest time for one build.",
		},
		{
			key: "builder.idle_timeout", kind: duration("100ms", "1d"), initial: "60s", used: worker(),
			doc: "Longest silence in the middle of a build service's answer; never more than builder.timeout.",
		},
		{
			key: "builder.max_frame_bytes", kind: size("1KiB", "256MiB"), initial: "16MiB", used: worker(),
			doc: "Largest frame that is accepted.",
		},
		{
			key: "builder.http.url", kind: httpURL(), used: worker(),
			doc: "Where the build service takes requests; needed with kind http. No user or password in it: use the token file.",
		},
		{
			key: "builder.http.token_file", kind: secretFile(), used: worker(),
			doc: "File that holds the bearer token for the build service; read again for each build.",
		},
		{
			key: "builder.exec.command", kind: texts(), initial: "[]", used: worker(),
			doc: "Program and arguments, as a list; needed with kind exec. No shell is involved.",
		},
	}
}

func triggerTable() []setting {
	return []setting{
		{
			key: "trigger.source", kind: choice("ledger", "sqs"), initial: "ledger", used: worker(),
			doc: "Where facts come from: the outbox itself (PostgreSQL alone), or nudges of a queue with the outbox as safety net.",
		},
		{
			key: "trigger.grace", kind: duration("0", "1h"), initial: "30s", used: worker(),
			doc: "How long a nudge may take before the worker takes its fact from the outbox; always 0 with source ledger.",
		},
		{
			key: "trigger.rules", kind: rules(), used: ledger(), initial: defaultRules,
			doc: "Facts that demand a rebuild: a list of objects with name, priority (interactive, standard, bulk) and optional settle.",
		},
		{
			key: "trigger.open_matter_sql", kind: predicate(), used: worker(),
			doc: "Optional SQL condition over firm_id and matter_id that is true for open matters; facts of others are gated.",
		},
		{
			key: "trigger.disabled_firms", kind: uuids(), initial: "[]", used: worker(),
			doc: "Firms whose facts are gated, as a list of UUIDs.",
		},
		{
			key: "trigger.queue_url", kind: httpURL(), used: []Component{Worker, Control},
			doc: "The queue that brings nudges; needed with source sqs.",
		},
		{
			key: "trigger.receivers", kind: integer(1, 32), initial: "2", used: worker(),
			doc: "Polls of the queue at once.",
		},
		{
			key: "trigger.poll_wait", kind: duration("1s", "20s"), initial: "10s", used: worker(),
			doc: "How long a poll waits for a message, in whole seconds. A stop leaves the poll under way for a second at most.",
		},
	}
}

// awsTable is for what needs AWS: the relay, a worker with source sqs, railctl.
func awsTable() []setting {
	programs := []Component{Worker, Relay, Control}
	return []setting{
		{
			key: "aws.endpoint", kind: httpURL(), used: programs,
			doc: "Where the AWS API is, for emulators; else AWS_ENDPOINT_URL and the SDK's own defaults hold.",
		},
		{
			key: "aws.region", kind: text(0, 40), used: programs,
			doc: "Region; else AWS_REGION and the SDK's own sources hold. Credentials are never settings here: the SDK finds them.",
		},
	}
}

const defaultRules = "[{name: matter.created, priority: standard}, " +
	"{name: document.uploaded, priority: standard}, " +
	"{name: document.deleted, priority: standard}, " +
	"{name: document.replaced, priority: standard}, " +
	"{name: brief.requested, priority: interactive}]"

func relayTable() []setting {
	way := []Component{Relay, Control}
	return []setting{
		{
			key: "relay.sinks", kind: choices("eventbridge", "sqs", "none"), initial: "[none]", used: way,
			doc: "Where facts are sent: eventbridge, sqs, or both; a fact is published when all have taken it. none: nowhere, the workers sweep the outbox.",
		},
		{
			key: "relay.event_bus", kind: text(1, 1600), initial: "default", used: way,
			doc: "Name or ARN of the bus of sink eventbridge.",
		},
		{
			key: "relay.queue_url", kind: httpURL(), used: way,
			doc: "The queue of sink sqs.",
		},
		{
			key: "relay.event_source", kind: eventSource(), initial: "brief.ops", used: way,
			doc: "Source of the published events.",
		},
		{
			key: "relay.batch_bytes", kind: size("1KiB", "1MiB"), initial: "200KiB", used: relay(),
			doc: "Bytes of one publish call at most (its entries are 10 at most).",
		},
		{
			key: "relay.inflight", kind: integer(1, 64), initial: "4", used: relay(),
			doc: "Publish calls at once.",
		},
		{
			key: "relay.max_idle", kind: duration("10ms", "1m"), initial: "1s", used: relay(),
			doc: "Longest pause of an idle relay before it looks for facts again.",
		},
		{
			key: "relay.lease", kind: duration("500ms", "10m"), initial: "10s", used: relay(),
			doc: "How long a relay may stay silent before others take its buckets. It is renewed at a third of it.",
		},
		{
			key: "relay.timeout", kind: duration("100ms", "5m"), initial: "10s", used: relay(),
			doc: "Longest time for one publish call. A stop waits for the calls under way.",
		},
		{
			key: "relay.backoff", kind: duration("10ms", "1h"), initial: "1s", used: relay(),
			doc: "First wait before a fact is sent again that a sink did not take; doubles each time, with full jitter.",
		},
		{
			key: "relay.backoff_max", kind: duration("10ms", "1d"), initial: "5m", used: relay(),
			doc: "Longest wait of that kind.",
		},
	}
}

func serverTable() []setting {
	return []setting{
		{
			key: "admin.listen", kind: listen().off(""), initial: "127.0.0.1:9464", used: daemon(),
			initialOf: map[Component]string{Relay: "127.0.0.1:9465"},
			doc:       "Address for /metrics, /livez, /readyz and /startupz; off: none.",
		},
		{
			key: "admin.username", kind: text(0, 100), used: daemon(),
			doc: "User name for /metrics by basic auth; with admin.password_file. Probes stay open.",
		},
		{
			key: "admin.password_file", kind: secretFile(), used: daemon(),
			doc: "File that holds the password for basic auth.",
		},
		{
			key: "api.listen", kind: listen().off(""), initial: "off", used: worker(),
			doc: "Address for the interface of intents (docs/INTENTS.md); off: none.",
		},
		{
			key: "api.token_file", kind: secretFile(), used: worker(),
			doc: "File that holds the bearer tokens of that interface, needed with it: lines of a firm's UUID, or all, a blank, and a token of 16 characters or more. It must not be readable by everybody, nor writable by others than its owner; read again for each request.",
		},
		{
			key: "api.certificate_file", kind: secretFile(), used: worker(),
			doc: "File that holds the certificate of that interface and its chain, in PEM; with api.key_file. Read again at each connect. Without it the interface is plain HTTP, and TLS the work of what stands before it.",
		},
		{
			key: "api.key_file", kind: secretFile(), used: worker(),
			doc: "File that holds the certificate's key, in PEM, with the permissions of api.token_file.",
		},
		{
			key: "console", kind: boolean(), initial: "off", used: worker(),
			doc: "The operator's pages are served by railctl console, under a role and a token of their own: on is refused here.",
		},
		{
			key: "log.level", kind: choice("debug", "info", "warn", "error"), initial: "info", used: anyone(),
			doc: "Least severe level that is written.",
		},
		{
			key: "log.format", kind: choice("auto", "json", "text"), initial: "auto", used: anyone(),
			doc: "Form of a log line; auto: text on a terminal, else JSON.",
		},
	}
}
