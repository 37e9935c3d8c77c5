package migrations_test

// relayAttacks are tried on bucket 63.
func relayAttacks() []attack {
	const lease = `UPDATE ops.outbox_bucket_leases SET `
	const of63 = ` WHERE bucket = 63;`
	const take = lease + `holder = gen_random_uuid(), epoch = epoch + 1, expires_at = clock_timestamp() + interval '10 s'` + of63
	const free = lease + `holder = NULL, expires_at = NULL` + of63
	const fail = `INSERT INTO ops.outbox_failures (event_id, bucket, attempts, next_attempt_at, last_code, last_text) VALUES ({event}, `
	const park = `UPDATE ops.outbox_failures SET parked_at = now(), parked_reason = 'why' WHERE event_id = {event};`
	publish := `UPDATE ops.domain_event_outbox SET published_at = now() WHERE event_id = {event};`
	return []attack{
		{"take, renew, release and take again", none, take + lease + `expires_at = clock_timestamp() + interval '20 s'` + of63 + free + take + free, ""},
		{"take what has expired", none, take + lease + `expires_at = now() - interval '1 s'` + of63 + take + free, ""},
		{"a failure by hand", undecided, fail + `1, 1, now(), 'x', 'y');` + park, ""},
		{"published before time", undecided, bend(publish, `now()`, `'-infinity'`), "outbox_published_at_is_finite"},
		{"publish twice", undecided, publish + publish, "outbox_published_once"},
		{"unpublish", undecided, publish + bend(publish, `now()`, `NULL`), "outbox_published_once"},
		{"a relay without a name", none, `INSERT INTO ops.outbox_relays (relay, name, expires_at) VALUES ({new}, '', now())`, "relays_have_a_name"},
		{"a relay that ended before time", none, `INSERT INTO ops.outbox_relays (relay, name, expires_at) VALUES ({new}, 'r', '-infinity')`, "relays_times_have_a_year"},
		{"a relay that began before any year", none, `INSERT INTO ops.outbox_relays (relay, name, started_at, expires_at) VALUES ({new}, 'r', '4713-11-24 BC', now())`, "relays_times_have_a_year"},
		{"a relay for a year", none, `INSERT INTO ops.outbox_relays (relay, name, expires_at) VALUES ({new}, 'r', now() + interval '1 year')`, "relays_times_are_possible"},
		{"a bucket too many", none, `INSERT INTO ops.outbox_bucket_leases (bucket) VALUES (64)`, "bucket_leases_bucket"},
		{"an epoch before the first", none, unguarded + lease + `epoch = -1` + of63, "bucket_leases_epoch_not_negative"},
		{"a holder without an end", none, lease + `holder = {new}, epoch = epoch + 1` + of63, "bucket_leases_are_whole"},
		{"a lease that ended before time", none, take + lease + `expires_at = '-infinity'` + of63, "bucket_leases_have_a_year"},
		{"a bucket renamed", none, lease + `bucket = 62` + of63, "bucket_leases_bucket_is_fixed"},
		{"a bucket's epoch back", none, take + free + lease + `epoch = epoch - 1` + of63, "bucket_leases_epoch_never_decreases"},
		{"take a live lease", none, take + take, "bucket_leases_takeover_needs_expiry"},
		{"take under the old epoch", none, bend(take, `epoch + 1`, `epoch`), "bucket_leases_takeover_brings_an_epoch"},
		{"take and skip an epoch", none, bend(take, `epoch + 1`, `epoch + 2`), "bucket_leases_takeover_brings_an_epoch"},
		{"an epoch without a holder", none, lease + `epoch = epoch + 1` + of63, "bucket_leases_takeover_brings_an_epoch"},
		{"a lease of a day", none, bend(take, `10 s`, `1 day`), "bucket_leases_times_are_possible"},
		{"delete a bucket", none, `DELETE FROM ops.outbox_bucket_leases` + of63, "bucket_leases_stay"},
		{"empty the buckets", none, `TRUNCATE ops.outbox_bucket_leases`, "bucket_leases_stay"},
		{"a failure in no bucket", undecided, fail + `64, 1, now(), 'x', 'y')`, "failures_bucket"},
		{"fewer failures than none", undecided, fail + `1, -1, now(), 'x', 'y')`, "failures_attempts_not_negative"},
		{"an attempt at no time", undecided, fail + `1, 1, '-infinity', 'x', 'y')`, "failures_next_attempt_is_finite"},
		{"an attempt in a year", undecided, fail + `1, 1, now() + interval '1 year', 'x', 'y')`, "failures_times_are_possible"},
		{"failed at no time", undecided, fail + `1, 1, now(), 'x', 'y'); UPDATE ops.outbox_failures SET failed_at = 'infinity' WHERE event_id = {event}`, "failures_times_have_a_year"},
		{"a long code", undecided, fail + `1, 1, now(), repeat('x', 101), 'y')`, "failures_code_is_short"},
		{"a long story", undecided, fail + `1, 1, now(), 'x', repeat('y', 501))`, "failures_text_is_short"},
		{"a sink of a long name", undecided, fail + `1, 0, now(), 'x', 'y'); UPDATE ops.outbox_failures SET waits_for = repeat('s', 101), parked_at = NULL, parked_reason = NULL`, "failures_waits_for_is_short"},
		{"parked and waiting for a sink", undecided, fail + `1, 0, now(), 'x', 'y');` + bend(park, `parked_at`, `waits_for = 'sqs', parked_at`), "failures_wait_or_are_parked"},
		{"parked for nothing", undecided, fail + `1, 1, now(), 'x', 'y');` + bend(park, `'why'`, `NULL`), "failures_parked_says_why"},
	}
}
