-- Frames: the built Briefs. A frame enters only in the transaction that has just
-- landed its generation, and never changes.

CREATE TABLE ops.matter_frames (
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  generation bigint NOT NULL,
  frame jsonb NOT NULL CONSTRAINT frames_are_objects CHECK (jsonb_typeof(frame) = 'object'),
  digest bytea NOT NULL CONSTRAINT frames_digest_is_sha256 CHECK (octet_length(digest) = 32),
  schema_version text NOT NULL,
  builder_version text NOT NULL,
  authority_epoch bigint NOT NULL DEFAULT 1,
  run_id uuid NOT NULL,
  source text NOT NULL DEFAULT 'rail' CONSTRAINT frames_source CHECK (source IN ('rail', 'import')),
  source_sequence bigint,
  built_at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT frames_have_a_year CHECK (built_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  PRIMARY KEY (firm_id, matter_id, generation),
  CONSTRAINT frames_one_a_run UNIQUE (run_id),
  CONSTRAINT frames_sequence_of_imports CHECK ((source = 'import') = (source_sequence IS NOT NULL))
);

-- Where a large frame waits for its landing, for the length of one transaction. It
-- comes in before the job's row is locked: a worker that stalls in the middle of a
-- COPY is not ended by any timeout of the server, and would hold the row for ever.
CREATE UNLOGGED TABLE ops.frame_arrivals (
  arrival_id uuid PRIMARY KEY,
  frame jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50);

CREATE FUNCTION ops.frames_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM ops.matter_frame_jobs j
   WHERE j.firm_id = NEW.firm_id AND j.matter_id = NEW.matter_id
     AND j.landed_generation = NEW.generation AND j.landed_xid = pg_current_xact_id();
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'matter_frames',
      CONSTRAINT = 'frames_enter_with_their_landing',
      MESSAGE = format('generation %s has not been landed by this transaction', NEW.generation);
  END IF;
  PERFORM 1 FROM ops.matter_frame_runs r
   WHERE r.run_id = NEW.run_id AND r.firm_id = NEW.firm_id AND r.matter_id = NEW.matter_id
     AND r.generation = NEW.generation AND r.outcome = 'running';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'matter_frames',
      CONSTRAINT = 'frames_come_from_their_run',
      MESSAGE = format('run %s is not the live run of generation %s', NEW.run_id, NEW.generation);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER frames_guard BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION ops.frames_guard();
CREATE TRIGGER frames_never_change BEFORE UPDATE ON ops.matter_frames
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('frames_never_change', 'demand a rebuild instead');
CREATE TRIGGER frames_stay BEFORE DELETE OR TRUNCATE ON ops.matter_frames
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('frames_stay');
CREATE TRIGGER frames_stay_each BEFORE DELETE ON ops.matter_frames
  FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION ops.refuse_to_others('frames_stay');
CREATE TRIGGER frames_count_what_left AFTER DELETE ON ops.matter_frames
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.count_what_left('frames');

-- What the application reads. Both views look with the eyes of who asks, so that the
-- policies of the tables hold for them too.
CREATE VIEW ops.current_frames WITH (security_invoker = true) AS
SELECT f.*, j.run_status, j.landed_generation < j.requested_generation AS stale, j.owed_since
  FROM ops.matter_frame_jobs j
  JOIN ONLY ops.matter_frames f ON f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation;

CREATE VIEW ops.matter_status WITH (security_invoker = true) AS
SELECT firm_id, matter_id, run_status, landed_generation < requested_generation AS stale, landed_generation, requested_generation, owed_since
  FROM ops.matter_frame_jobs;

-- The stored size of a frame, for those who may not read what is in it.
CREATE FUNCTION ops.frame_bytes(firm uuid, matter uuid, generation bigint) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_column_size(f.frame) FROM ops.matter_frames f WHERE f.firm_id = $1 AND f.matter_id = $2 AND f.generation = $3
$$;

-- At the commit: a claim has its run, a claim that was left has a closed run, and
-- a landing has its frame and its landed run. SECURITY DEFINER as in 004.
CREATE FUNCTION ops.jobs_settled_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.landed_generation <> OLD.landed_generation THEN
      PERFORM 1 FROM ops.matter_frames f JOIN ops.matter_frame_runs r ON r.run_id = f.run_id
       WHERE f.firm_id = NEW.firm_id AND f.matter_id = NEW.matter_id AND f.generation = NEW.landed_generation
         AND r.generation = f.generation AND r.outcome = 'landed';
      IF NOT FOUND THEN
        PERFORM ops.jobs_refuse('jobs_landing_has_its_frame', 'a landing commits only with its frame and its landed run');
      END IF;
    END IF;
    IF OLD.run_id IS NOT NULL AND OLD.run_id IS DISTINCT FROM NEW.run_id THEN
      PERFORM 1 FROM ops.matter_frame_runs r WHERE r.run_id = OLD.run_id AND r.outcome = 'running';
      IF FOUND THEN
        PERFORM ops.jobs_refuse('jobs_left_run_is_closed', 'a claim that is left commits only with its run closed');
      END IF;
    END IF;
  END IF;
  IF NEW.run_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.run_id IS DISTINCT FROM OLD.run_id) THEN
    PERFORM 1 FROM ops.matter_frame_runs r
     WHERE r.run_id = NEW.run_id AND r.firm_id = NEW.firm_id AND r.matter_id = NEW.matter_id AND r.generation = NEW.claimed_generation;
    IF NOT FOUND THEN
      PERFORM ops.jobs_refuse('jobs_claim_has_its_run', 'a claim commits only with its run');
    END IF;
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_settled_at_commit AFTER UPDATE ON ops.matter_frame_jobs
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.run_id IS DISTINCT FROM NEW.run_id OR OLD.landed_generation <> NEW.landed_generation)
  EXECUTE FUNCTION ops.jobs_settled_at_commit();
CREATE CONSTRAINT TRIGGER jobs_born_settled_at_commit AFTER INSERT ON ops.matter_frame_jobs
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.run_id IS NOT NULL)
  EXECUTE FUNCTION ops.jobs_settled_at_commit();
