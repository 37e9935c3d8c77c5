-- The relay: who may send which facts on, and what became of facts that were
-- refused. The hot table gets one new version a fact, when it is marked.

CREATE INDEX outbox_unpublished ON ops.domain_event_outbox (bucket, seq) WHERE published_at IS NULL;
ALTER TABLE ops.domain_event_outbox
  ADD CONSTRAINT outbox_published_at_is_finite CHECK (isfinite(published_at)),
  SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE TRIGGER outbox_published_once BEFORE UPDATE OF published_at ON ops.domain_event_outbox
  FOR EACH ROW WHEN (OLD.published_at IS NOT NULL)
  EXECUTE FUNCTION ops.refuse('outbox_published_once', 'a fact that was published stays published');

-- One row a relay that runs, so that each knows how many share the buckets.
CREATE TABLE ops.outbox_relays (
  relay uuid PRIMARY KEY,
  name text NOT NULL CONSTRAINT relays_have_a_name CHECK (name <> '' AND length(name) <= 200),
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL,
  CONSTRAINT relays_times_have_a_year CHECK (
    least(started_at, expires_at) >= '0001-02-01 00:00+00' AND greatest(started_at, expires_at) <= '9999-12-01 00:00+00')
) WITH (fillfactor = 50);

-- A relay that is said to live for long has a share of the buckets that nobody serves.
CREATE TRIGGER relays_times_are_possible BEFORE INSERT OR UPDATE ON ops.outbox_relays
  FOR EACH ROW WHEN (NEW.expires_at > clock_timestamp() + interval '1 hour')
  EXECUTE FUNCTION ops.refuse('relays_times_are_possible', 'a relay may not be said to live for more than an hour ahead');

-- Who owns a bucket: the holder, a number that no two processes share, under an
-- epoch. The epoch alone would repeat after a rewind of the ledger.
CREATE TABLE ops.outbox_bucket_leases (
  bucket smallint PRIMARY KEY CONSTRAINT bucket_leases_bucket CHECK (bucket BETWEEN 0 AND 63),
  holder uuid,
  epoch bigint NOT NULL DEFAULT 0 CONSTRAINT bucket_leases_epoch_not_negative CHECK (epoch >= 0),
  expires_at timestamptz CONSTRAINT bucket_leases_have_a_year CHECK (expires_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  CONSTRAINT bucket_leases_are_whole CHECK ((holder IS NULL) = (expires_at IS NULL))
) WITH (fillfactor = 20);
INSERT INTO ops.outbox_bucket_leases (bucket) SELECT generate_series(0, 63);

CREATE FUNCTION ops.bucket_leases_refuse(name text, message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'outbox_bucket_leases', CONSTRAINT = name, MESSAGE = message;
END $$;

CREATE FUNCTION ops.bucket_leases_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.bucket <> OLD.bucket THEN
    PERFORM ops.bucket_leases_refuse('bucket_leases_bucket_is_fixed', 'a lease is of one bucket');
  END IF;
  IF NEW.epoch < OLD.epoch THEN
    PERFORM ops.bucket_leases_refuse('bucket_leases_epoch_never_decreases', format('epoch may not go from %s back to %s', OLD.epoch, NEW.epoch));
  END IF;
  IF NEW.holder IS NOT NULL AND NEW.holder IS DISTINCT FROM OLD.holder THEN
    IF OLD.expires_at > clock_timestamp() THEN
      PERFORM ops.bucket_leases_refuse('bucket_leases_takeover_needs_expiry', format('bucket %s is leased until %s', OLD.bucket, OLD.expires_at));
    END IF;
    IF NEW.epoch <> OLD.epoch + 1 THEN
      PERFORM ops.bucket_leases_refuse('bucket_leases_takeover_brings_an_epoch', 'a new holder brings the next epoch');
    END IF;
  ELSIF NEW.epoch <> OLD.epoch THEN
    PERFORM ops.bucket_leases_refuse('bucket_leases_takeover_brings_an_epoch', 'only a new holder brings an epoch');
  END IF;
  IF NEW.expires_at > clock_timestamp() + interval '1 hour' THEN
    PERFORM ops.bucket_leases_refuse('bucket_leases_times_are_possible', 'a lease may not reach further than an hour ahead');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER bucket_leases_guard BEFORE UPDATE ON ops.outbox_bucket_leases FOR EACH ROW EXECUTE FUNCTION ops.bucket_leases_guard();
CREATE TRIGGER bucket_leases_stay BEFORE DELETE OR TRUNCATE ON ops.outbox_bucket_leases
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('bucket_leases_stay', 'there are always 64 buckets');

-- Facts that a sink refused. A row goes when its fact is published or leaves.
-- sent_to names the sinks that have taken the fact already, waits_for one that has
-- not and is paused: until that may be called nothing is tried.
CREATE TABLE ops.outbox_failures (
  event_id uuid PRIMARY KEY,
  bucket smallint NOT NULL CONSTRAINT failures_bucket CHECK (bucket BETWEEN 0 AND 63),
  attempts integer NOT NULL CONSTRAINT failures_attempts_not_negative CHECK (attempts >= 0),
  sent_to text[] NOT NULL DEFAULT '{}',
  waits_for text COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT failures_waits_for_is_short CHECK (length(waits_for) <= 100),
  failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_attempt_at timestamptz NOT NULL CONSTRAINT failures_next_attempt_is_finite CHECK (isfinite(next_attempt_at)),
  last_code text NOT NULL CONSTRAINT failures_code_is_short CHECK (length(last_code) <= 100),
  last_text text NOT NULL CONSTRAINT failures_text_is_short CHECK (length(last_text) <= 500),
  parked_at timestamptz,
  parked_reason text,
  CONSTRAINT failures_parked_says_why CHECK (
    (parked_at IS NULL) = (parked_reason IS NULL) AND (parked_at IS NULL OR isfinite(parked_at))),
  CONSTRAINT failures_times_have_a_year CHECK (
    least(failed_at, next_attempt_at, parked_at) >= '0001-02-01 00:00+00' AND greatest(failed_at, next_attempt_at, parked_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT failures_wait_or_are_parked CHECK (waits_for = '' OR parked_at IS NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX outbox_failures_due ON ops.outbox_failures (bucket, waits_for, next_attempt_at) WHERE parked_at IS NULL;
CREATE INDEX outbox_failures_parked ON ops.outbox_failures (parked_at) WHERE parked_at IS NOT NULL;

-- A backoff that ends in a year would be a fact lost without a word.
CREATE TRIGGER failures_times_are_possible BEFORE INSERT OR UPDATE OF next_attempt_at ON ops.outbox_failures
  FOR EACH ROW WHEN (NEW.next_attempt_at > clock_timestamp() + interval '1 day')
  EXECUTE FUNCTION ops.refuse('failures_times_are_possible', 'the next attempt may not be further than a day ahead');

-- All that a relay may say of publishing: that from now on it has to be waited for.
CREATE FUNCTION ops.require_publishing(relay text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT ops.set_publishing('required', $1, 'a relay with a sink runs')
$$;

-- Parked facts to be tried again at once, all of them where events is null.
CREATE FUNCTION ops.replay_parked(events uuid[], actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  UPDATE ops.outbox_failures
     SET parked_at = NULL, parked_reason = NULL, attempts = 0, next_attempt_at = clock_timestamp()
   WHERE parked_at IS NOT NULL AND (events IS NULL OR event_id = ANY (events));
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n > 0 THEN
    PERFORM ops.audit(actor, 'outbox.replay', CASE WHEN cardinality(events) = 1 THEN events[1]::text ELSE 'parked' END, reason,
      jsonb_build_object('facts', n));
  END IF;
  RETURN n;
END $$;
REVOKE ALL ON FUNCTION ops.replay_parked(uuid[], text, text) FROM PUBLIC;

-- What was noted of a fact's failures goes with the fact.
CREATE FUNCTION ops.failures_go_with_their_fact() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM ops.outbox_failures f USING gone g WHERE f.event_id = g.event_id;
  RETURN NULL;
END $$;
CREATE TRIGGER failures_go_with_their_fact AFTER DELETE ON ops.domain_event_outbox
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.failures_go_with_their_fact();
