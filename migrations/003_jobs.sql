-- The ledger: one row a matter. Every rule that can be read off a row is a named
-- CHECK; every rule about a change is in the guard. No program, psql included,
-- can put the row into a state that the rail cannot mean.

CREATE TABLE ops.matter_frame_jobs (
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  bucket smallint NOT NULL GENERATED ALWAYS AS (ops.matter_bucket(matter_id)) STORED,
  run_status text NOT NULL CONSTRAINT jobs_status CHECK (run_status IN ('idle', 'queued', 'running', 'parked')),
  requested_generation bigint NOT NULL DEFAULT 0,
  claimed_generation bigint NOT NULL DEFAULT 0,
  landed_generation bigint NOT NULL DEFAULT 0,
  rebuild_needed boolean NOT NULL DEFAULT false,
  claimed_at timestamptz,
  lease_expires_at timestamptz,
  run_id uuid,
  attempts integer NOT NULL DEFAULT 0 CONSTRAINT jobs_attempts_not_negative CHECK (attempts >= 0),
  -- demands recorded since the last landing; a claim's own bump is not one
  demands_owed bigint NOT NULL DEFAULT 0 CONSTRAINT jobs_demands_within_generations
    CHECK (0 <= demands_owed AND demands_owed <= requested_generation - landed_generation),
  owed_since timestamptz,
  rebuild_since timestamptz,
  rebuild_priority smallint CONSTRAINT jobs_rebuild_priority CHECK (rebuild_priority BETWEEN 0 AND 2),
  queued_at timestamptz,
  not_before timestamptz,
  priority smallint NOT NULL DEFAULT 2 CONSTRAINT jobs_priority CHECK (priority BETWEEN 0 AND 2),
  last_error text,
  parked_by text CONSTRAINT jobs_parked_by CHECK (parked_by IN ('failures', 'operator')),
  parked_reason text,
  authority_epoch bigint NOT NULL DEFAULT 1,
  -- the transaction that landed last: what a frame's insert is checked against
  landed_xid xid8,
  PRIMARY KEY (firm_id, matter_id),
  CONSTRAINT jobs_generations_in_order CHECK (
    0 <= landed_generation AND landed_generation <= claimed_generation AND claimed_generation <= requested_generation),
  CONSTRAINT jobs_idle_owes_nothing CHECK ((run_status = 'idle') = (landed_generation = requested_generation)),
  CONSTRAINT jobs_owed_since_unless_idle CHECK (
    (run_status = 'idle') = (owed_since IS NULL) AND (owed_since IS NULL OR isfinite(owed_since))),
  CONSTRAINT jobs_claim_is_whole CHECK (
    (run_status = 'running') = (run_id IS NOT NULL)
    AND (run_status = 'running') = (claimed_at IS NOT NULL)
    AND (run_status = 'running') = (lease_expires_at IS NOT NULL)
    AND (run_status <> 'running' OR (isfinite(claimed_at) AND isfinite(lease_expires_at)))),
  CONSTRAINT jobs_running_token_not_landed CHECK (run_status <> 'running' OR claimed_generation > landed_generation),
  CONSTRAINT jobs_rebuild_is_unclaimed_demand CHECK (
    rebuild_needed = (run_status = 'running' AND claimed_generation < requested_generation)
    AND rebuild_needed = (rebuild_since IS NOT NULL)
    AND rebuild_needed = (rebuild_priority IS NOT NULL)
    AND (rebuild_since IS NULL OR isfinite(rebuild_since))),
  CONSTRAINT jobs_queued_has_its_times CHECK (
    run_status <> 'queued' OR (queued_at IS NOT NULL AND not_before IS NOT NULL AND isfinite(queued_at) AND isfinite(not_before))),
  CONSTRAINT jobs_times_have_a_year CHECK (
    least(claimed_at, lease_expires_at, owed_since, rebuild_since, queued_at, not_before) >= '0001-02-01 00:00+00' AND greatest(claimed_at, lease_expires_at, owed_since, rebuild_since, queued_at, not_before) <= '9999-12-01 00:00+00'),
  CONSTRAINT jobs_parked_says_why CHECK (
    (run_status = 'parked') = (parked_by IS NOT NULL) AND (run_status = 'parked') = (parked_reason IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- No index mentions a column that demand, renewal or settle changes, so those
-- updates stay heap-only.
CREATE INDEX jobs_queued ON ops.matter_frame_jobs (firm_id, priority, queued_at) WHERE run_status = 'queued';
CREATE INDEX jobs_running ON ops.matter_frame_jobs (claimed_at) WHERE run_status = 'running';
CREATE INDEX jobs_parked ON ops.matter_frame_jobs (firm_id) WHERE run_status = 'parked';
CREATE INDEX jobs_owed ON ops.matter_frame_jobs (owed_since) WHERE owed_since IS NOT NULL;

CREATE FUNCTION ops.jobs_refuse(name text, message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'matter_frame_jobs', CONSTRAINT = name, MESSAGE = message;
END $$;

CREATE FUNCTION ops.jobs_birth() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.landed_generation <> 0
     OR NOT (NEW.claimed_generation = 0 OR (NEW.run_status = 'running' AND NEW.claimed_generation = 1 AND NEW.requested_generation = 1)) THEN
    PERFORM ops.jobs_refuse('jobs_born_with_nothing_landed', 'a job is born with nothing landed, and claimed only as 1/1/0');
  END IF;
  IF NEW.attempts <> NEW.claimed_generation THEN
    PERFORM ops.jobs_refuse('jobs_attempt_counted_at_claim', 'a job is born with one attempt exactly when it is born claimed');
  END IF;
  IF NEW.run_status = 'parked' THEN
    PERFORM ops.jobs_refuse('jobs_transition', 'a job cannot be born parked');
  END IF;
  IF NEW.requested_generation > 1099511627776 THEN
    PERFORM ops.jobs_refuse('jobs_demand_can_be_counted', 'demand of more than 2^40 at once');
  END IF;
  NEW.landed_xid := NULL;
  PERFORM ops.jobs_check_times(NEW);
  RETURN NEW;
END $$;

-- An instant far ahead would make a matter unclaimable or unsweepable, silently.
CREATE FUNCTION ops.jobs_check_times(j ops.matter_frame_jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF j.claimed_at > clock_timestamp() + interval '1 second' OR j.lease_expires_at > clock_timestamp() + interval '1 day'
     OR j.not_before > clock_timestamp() + interval '1 day' OR j.queued_at > clock_timestamp() + interval '1 second'
     OR j.owed_since > clock_timestamp() + interval '1 second' OR j.rebuild_since > clock_timestamp() + interval '1 second' THEN
    PERFORM ops.jobs_refuse('jobs_times_are_possible',
      'claimed_at, queued_at, owed_since and rebuild_since may not lie ahead, lease_expires_at and not_before at most a day');
  END IF;
END $$;

CREATE FUNCTION ops.jobs_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  soon timestamptz := clock_timestamp() + interval '1 second';
  tomorrow timestamptz := clock_timestamp() + interval '1 day';
BEGIN
  IF NEW.firm_id <> OLD.firm_id OR NEW.matter_id <> OLD.matter_id THEN
    PERFORM ops.jobs_refuse('jobs_key_is_fixed', 'the key of a job never changes');
  END IF;
  IF NEW.requested_generation < OLD.requested_generation OR NEW.claimed_generation < OLD.claimed_generation
     OR NEW.landed_generation < OLD.landed_generation THEN
    PERFORM ops.jobs_refuse('jobs_generations_never_decrease', 'a generation never decreases');
  END IF;
  -- a number that no claim can add one to would stop every claim of its batch
  IF NEW.requested_generation - OLD.requested_generation > 1099511627776 THEN
    PERFORM ops.jobs_refuse('jobs_demand_can_be_counted', 'demand of more than 2^40 at once');
  END IF;
  IF NEW.landed_generation <> OLD.landed_generation THEN
    IF OLD.run_status <> 'running' OR NEW.landed_generation <> OLD.claimed_generation OR NEW.run_status NOT IN ('idle', 'queued') THEN
      PERFORM ops.jobs_refuse('jobs_landing_is_of_the_live_token',
        format('only the token being served (%s) can land, and the row leaves running with it', OLD.claimed_generation));
    END IF;
    NEW.landed_xid := pg_current_xact_id();
  ELSE
    NEW.landed_xid := OLD.landed_xid;
  END IF;
  IF NEW.claimed_generation <> OLD.claimed_generation
     AND (NEW.run_id IS NULL OR NEW.run_id IS NOT DISTINCT FROM OLD.run_id OR NEW.claimed_generation <> NEW.requested_generation) THEN
    PERFORM ops.jobs_refuse('jobs_claim_brings_a_new_run', 'claimed_generation changes only with a new run_id, up to requested_generation');
  END IF;
  IF NEW.run_id IS NOT NULL AND NEW.run_id IS DISTINCT FROM OLD.run_id THEN
    IF NEW.claimed_generation = OLD.claimed_generation THEN
      PERFORM ops.jobs_refuse('jobs_run_brings_a_new_token', 'a new run_id takes the next generation');
    END IF;
    IF NEW.attempts <> OLD.attempts + 1 THEN
      PERFORM ops.jobs_refuse('jobs_attempt_counted_at_claim', 'a claim counts one attempt');
    END IF;
    IF OLD.run_status = 'parked' THEN
      PERFORM ops.jobs_refuse('jobs_transition', 'a parked job is not claimed: unpark it');
    END IF;
    IF OLD.run_status = 'running' AND OLD.lease_expires_at > clock_timestamp() THEN
      PERFORM ops.jobs_refuse('jobs_takeover_needs_an_expired_lease', 'a live claim is not taken over before its lease has run out');
    END IF;
  END IF;
  -- attempts are forgotten by a landing or an unpark; one is handed back with its claim
  IF NEW.landed_generation <> OLD.landed_generation AND NEW.attempts <> 0
     OR NEW.attempts <> OLD.attempts AND NEW.landed_generation = OLD.landed_generation
        AND (NEW.run_id IS NULL OR NEW.run_id IS NOT DISTINCT FROM OLD.run_id)
        AND NOT (NEW.attempts = 0 AND OLD.run_status = 'parked' AND NEW.run_status = 'queued')
        AND NOT (NEW.attempts = OLD.attempts - 1 AND OLD.run_status = 'running' AND NEW.run_status = 'queued') THEN
    PERFORM ops.jobs_refuse('jobs_attempts_are_kept', 'attempts change by a claim, a landing, an unpark or a release only');
  END IF;
  IF OLD.run_status = 'idle' AND NEW.run_status = 'parked' THEN
    PERFORM ops.jobs_refuse('jobs_transition', 'a job that owes nothing is not parked');
  END IF;
  IF NEW.authority_epoch < OLD.authority_epoch THEN
    PERFORM ops.jobs_refuse('jobs_authority_epoch_never_decreases', 'authority_epoch never decreases');
  END IF;
  -- what is owed is forgotten by a landing only: its age may not be made younger,
  -- nor its demands fewer
  IF NEW.landed_generation <> OLD.landed_generation THEN
    IF NEW.owed_since IS DISTINCT FROM OLD.rebuild_since THEN
      PERFORM ops.jobs_refuse('jobs_debt_is_kept', 'after a landing owed_since is that of the demand during the build');
    END IF;
  ELSIF NEW.owed_since > OLD.owed_since OR NEW.demands_owed < OLD.demands_owed OR NEW.rebuild_since > OLD.rebuild_since THEN
    PERFORM ops.jobs_refuse('jobs_debt_is_kept', 'owed_since, rebuild_since and demands_owed are made less by a landing only');
  END IF;
  -- only instants that the row did not have: a clock that was set back must not make
  -- it unwritable. A landing hands the rebuild's instant on.
  IF (NEW.claimed_at > soon AND NEW.claimed_at IS DISTINCT FROM OLD.claimed_at)
     OR (NEW.lease_expires_at > tomorrow AND NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at)
     OR (NEW.not_before > tomorrow AND NEW.not_before IS DISTINCT FROM OLD.not_before)
     OR (NEW.queued_at > soon AND NEW.queued_at IS DISTINCT FROM OLD.queued_at AND NEW.queued_at IS DISTINCT FROM OLD.rebuild_since)
     OR (NEW.owed_since > soon AND NEW.owed_since IS DISTINCT FROM OLD.owed_since AND NEW.owed_since IS DISTINCT FROM OLD.rebuild_since)
     OR (NEW.rebuild_since > soon AND NEW.rebuild_since IS DISTINCT FROM OLD.rebuild_since) THEN
    PERFORM ops.jobs_check_times(NEW);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_birth BEFORE INSERT ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION ops.jobs_birth();
CREATE TRIGGER jobs_guard BEFORE UPDATE ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION ops.jobs_guard();
CREATE TRIGGER jobs_stay BEFORE DELETE OR TRUNCATE ON ops.matter_frame_jobs
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('jobs_stay');
CREATE TRIGGER jobs_stay_each BEFORE DELETE ON ops.matter_frame_jobs
  FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION ops.refuse_to_others('jobs_stay');

-- Who may not be dispatched: one firm, or all (firm_id null).
CREATE TABLE ops.dispatch_pauses (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  firm_id uuid,
  paused_by text NOT NULL CONSTRAINT dispatch_pauses_who CHECK (paused_by <> ''),
  reason text NOT NULL CONSTRAINT dispatch_pauses_why CHECK (btrim(reason) <> ''),
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT dispatch_pauses_have_a_year CHECK (paused_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  CONSTRAINT dispatch_pauses_one_a_scope UNIQUE NULLS NOT DISTINCT (firm_id)
);
