-- Runs: one row an attempt, the thing that is debugged. Its outcome is written
-- once; what a zombie tries later is kept beside it.

CREATE TABLE ops.matter_frame_runs (
  run_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  generation bigint NOT NULL CONSTRAINT runs_generation_positive CHECK (generation >= 1),
  attempt integer NOT NULL,
  retry_of uuid,
  worker text NOT NULL,
  builder text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz,
  outcome text NOT NULL DEFAULT 'running'
    CONSTRAINT runs_outcome CHECK (outcome IN ('running', 'landed', 'failed', 'expired', 'fenced', 'released', 'cancelled')),
  error_kind text,
  error_text text,
  error_preview bytea CONSTRAINT runs_error_preview_is_short CHECK (octet_length(error_preview) <= 2048),
  error_sha256 bytea,
  demands bigint NOT NULL DEFAULT 0,
  model_calls bigint,
  tokens bigint,
  cost_usd numeric,
  traceparent text,
  late_write_at timestamptz,
  authority_epoch bigint NOT NULL DEFAULT 1,
  CONSTRAINT runs_one_a_generation UNIQUE (firm_id, matter_id, generation),
  CONSTRAINT runs_finished_unless_running CHECK ((outcome = 'running') = (finished_at IS NULL)),
  CONSTRAINT runs_late_write_is_refused CHECK (late_write_at IS NULL OR outcome NOT IN ('running', 'landed')),
  CONSTRAINT runs_times_have_a_year CHECK (
    least(started_at, finished_at, late_write_at) >= '0001-02-01 00:00+00' AND greatest(started_at, finished_at, late_write_at) <= '9999-12-01 00:00+00')
) WITH (fillfactor = 80);
CREATE INDEX runs_last_claim_of_firm ON ops.matter_frame_runs (firm_id, started_at);
CREATE INDEX runs_by_age ON ops.matter_frame_runs USING brin (started_at) WITH (pages_per_range = 32, autosummarize = on);

-- How often somebody tried to change an ended outcome. A sequence, because it
-- must survive the rollback of the statement that was refused.
CREATE SEQUENCE ops.run_outcome_refusals MINVALUE 0 START 1;
SELECT setval('ops.run_outcome_refusals', 0, true);

CREATE FUNCTION ops.runs_refuse(name text, message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'matter_frame_runs', CONSTRAINT = name, MESSAGE = message;
END $$;

CREATE FUNCTION ops.runs_birth() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.outcome <> 'running' THEN
    PERFORM ops.runs_refuse('runs_born_running', 'a run is born running');
  END IF;
  -- from the newest version of the row backwards: forwards all that cannot be cleared
  -- away would be passed, and "=" would have the order forgotten
  PERFORM 1 FROM (
    SELECT j.run_id, j.claimed_generation, j.attempts FROM ops.matter_frame_jobs j
     WHERE (j.firm_id, j.matter_id) >= (NEW.firm_id, NEW.matter_id) AND (j.firm_id, j.matter_id) <= (NEW.firm_id, NEW.matter_id)
     ORDER BY j.firm_id DESC, j.matter_id DESC LIMIT 1) j
   WHERE j.run_id = NEW.run_id AND j.claimed_generation = NEW.generation AND j.attempts = NEW.attempt;
  IF NOT FOUND THEN
    PERFORM ops.runs_refuse('runs_belong_to_their_claim', 'a run is inserted with the claim that opened it');
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION ops.runs_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.run_id, NEW.firm_id, NEW.matter_id, NEW.generation, NEW.attempt, NEW.started_at)
     IS DISTINCT FROM (OLD.run_id, OLD.firm_id, OLD.matter_id, OLD.generation, OLD.attempt, OLD.started_at) THEN
    PERFORM ops.runs_refuse('runs_key_is_fixed', 'what names a run never changes');
  END IF;
  IF OLD.outcome <> 'running' THEN
    -- a late write may be noted, once; everything else of an ended run is history
    IF (to_jsonb(NEW) - 'late_write_at') IS DISTINCT FROM (to_jsonb(OLD) - 'late_write_at') OR OLD.late_write_at IS NOT NULL THEN
      PERFORM nextval('ops.run_outcome_refusals');
      PERFORM ops.runs_refuse('runs_outcome_is_final', format('run %s has ended as %s and does not change', OLD.run_id, OLD.outcome));
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.outcome = 'landed' THEN
    PERFORM 1 FROM ops.matter_frames f
     WHERE f.firm_id = NEW.firm_id AND f.matter_id = NEW.matter_id AND f.generation = NEW.generation AND f.run_id = NEW.run_id;
    IF NOT FOUND THEN
      PERFORM ops.runs_refuse('runs_landed_has_its_frame', 'a run lands only with its frame');
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER runs_birth BEFORE INSERT ON ops.matter_frame_runs FOR EACH ROW EXECUTE FUNCTION ops.runs_birth();
CREATE TRIGGER runs_guard BEFORE UPDATE ON ops.matter_frame_runs FOR EACH ROW EXECUTE FUNCTION ops.runs_guard();
CREATE TRIGGER runs_stay BEFORE DELETE OR TRUNCATE ON ops.matter_frame_runs
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('runs_stay');
CREATE TRIGGER runs_stay_each BEFORE DELETE ON ops.matter_frame_runs
  FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION ops.refuse_to_others('runs_stay');
CREATE FUNCTION ops.runs_count_what_left() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
  UPDATE ops.retention_counters c SET taken = c.taken + g.n FROM (SELECT 'runs' AS what, count(*) AS n FROM gone UNION ALL SELECT 'landed_runs', count(*) FROM gone WHERE outcome = 'landed') g WHERE c.what = g.what AND TG_TABLE_SCHEMA = 'ops' AND (g.n > 0);
  RETURN NULL;
END $$;
CREATE TRIGGER runs_count_what_left AFTER DELETE ON ops.matter_frame_runs
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.runs_count_what_left();

-- Whoever takes a row over closes the old holder's run. A trigger, because the
-- statement that waited for the row cannot see that run in its snapshot.
CREATE FUNCTION ops.jobs_close_the_old_run() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE ops.matter_frame_runs
     SET outcome = 'expired', finished_at = clock_timestamp(), error_kind = 'lease_expired',
         error_text = 'the lease ran out and the claim was taken over'
   WHERE run_id = OLD.run_id AND outcome = 'running';
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_close_the_old_run AFTER UPDATE ON ops.matter_frame_jobs FOR EACH ROW
  WHEN (OLD.run_status = 'running' AND NEW.run_status = 'running' AND OLD.run_id <> NEW.run_id)
  EXECUTE FUNCTION ops.jobs_close_the_old_run();

-- The other way round, at the commit: a run that ends leaves no claim behind it. A
-- holder whose run was closed under it could not land, nor learn why. SECURITY
-- DEFINER: at the commit of an operator's verb it is no longer the verb that runs.
CREATE FUNCTION ops.runs_settled_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM ops.matter_frame_jobs j
   WHERE j.firm_id = NEW.firm_id AND j.matter_id = NEW.matter_id AND j.run_id = NEW.run_id;
  IF FOUND THEN
    PERFORM ops.runs_refuse('runs_end_with_their_claim', 'a run ends only together with its claim: use railctl cancel');
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER runs_settled_at_commit AFTER UPDATE ON ops.matter_frame_runs
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.outcome = 'running' AND NEW.outcome <> 'running')
  EXECUTE FUNCTION ops.runs_settled_at_commit();
