-- The write fence: who may write a scope, durably, under an epoch. Nothing below
-- knows it: the ledger asks the functions of 001 that stand for it, and this file
-- gives them their meaning. Without a row in ops.write_fences the rail writes
-- everywhere, and pays one cached read for having asked.

-- Whoever writes frames, and under which roles of the database. An external writer's
-- frames come in by its importer, a role of its own.
CREATE TABLE ops.writers (
  name text PRIMARY KEY CONSTRAINT writers_name CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
  kind text NOT NULL CONSTRAINT writers_kind CHECK (kind IN ('rail', 'external')),
  database_roles text[] NOT NULL CONSTRAINT writers_have_roles CHECK (
    cardinality(database_roles) > 0 AND array_position(database_roles, NULL) IS NULL AND array_position(database_roles, '') IS NULL),
  importer_role text CONSTRAINT writers_importer CHECK (importer_role IS NULL OR (importer_role <> '' AND kind = 'external')),
  endpoint text CONSTRAINT writers_endpoint CHECK (length(endpoint) <= 500 AND endpoint ~ '^https?://'),
  status text NOT NULL DEFAULT 'active' CONSTRAINT writers_status CHECK (status IN ('active', 'retired')),
  registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  retired_at timestamptz,
  CONSTRAINT writers_times_have_a_year CHECK (
    least(registered_at, retired_at) >= '0001-02-01 00:00+00' AND greatest(registered_at, retired_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT writers_retired_says_when CHECK ((status = 'retired') = (retired_at IS NOT NULL)),
  CONSTRAINT writers_rail_stays CHECK (kind = 'external' OR status = 'active')
);
CREATE UNIQUE INDEX writers_one_rail ON ops.writers (kind) WHERE kind = 'rail';
INSERT INTO ops.writers (name, kind, database_roles) VALUES ('rail', 'rail', '{rail_worker,rail_app}');

CREATE FUNCTION ops.fence_scope(bucket smallint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN 'matters/bucket-' || pg_catalog.lpad(bucket::text, 2, '0');

-- bucket is that of a scope of matters. bucket_version is that of ops.matter_bucket:
-- another function would put matters into other scopes.
CREATE TABLE ops.write_fences (
  scope text COLLATE "C" PRIMARY KEY CONSTRAINT fences_scope CHECK (
    scope ~ '^(matters/bucket-([0-5][0-9]|6[0-3])|system|fixture/[a-z0-9][a-z0-9-]{0,60})$'),
  bucket smallint GENERATED ALWAYS AS (CASE WHEN scope ~ '^matters/bucket-' THEN right(scope, 2)::smallint END) STORED,
  bucket_version smallint NOT NULL DEFAULT 1 CONSTRAINT fences_bucket_version CHECK (bucket_version = 1),
  epoch bigint NOT NULL DEFAULT 1 CONSTRAINT fences_epoch_positive CHECK (epoch >= 1),
  writer text NOT NULL REFERENCES ops.writers,
  state text NOT NULL DEFAULT 'open' CONSTRAINT fences_state CHECK (state IN ('open', 'closing', 'sealed')),
  effective_revision bigint NOT NULL DEFAULT 0,
  final_sequence bigint,
  change_id uuid,
  closing_deadline timestamptz,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- what a restore closed has no deadline: infinity
  CONSTRAINT fences_times_have_a_year CHECK (
    least(changed_at, closing_deadline) >= '0001-02-01 00:00+00' AND greatest(changed_at, nullif(closing_deadline, 'infinity')) <= '9999-12-01 00:00+00'),
  CONSTRAINT fences_closed_by_a_change CHECK (
    (state = 'open') = (closing_deadline IS NULL) AND (state = 'open' OR change_id IS NOT NULL)),
  CONSTRAINT fences_sealed_at_a_sequence CHECK (state <> 'sealed' OR final_sequence IS NOT NULL)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50); -- sparse: each write asks for one row, by its key
CREATE UNIQUE INDEX fences_of_buckets ON ops.write_fences (bucket) WHERE bucket IS NOT NULL;

-- One row a change id. A change that has ended (outcome) returns its stored result
-- for ever; what is left to it then is its window.
CREATE TABLE ops.write_fence_changes (
  change_id uuid PRIMARY KEY,
  scope text COLLATE "C" NOT NULL,
  cohort text NOT NULL DEFAULT 'first' CONSTRAINT changes_cohort CHECK (cohort <> '' AND length(cohort) <= 100),
  direction text NOT NULL CONSTRAINT changes_direction CHECK (direction IN ('forward', 'rollback', 'restore')),
  from_writer text NOT NULL REFERENCES ops.writers,
  to_writer text NOT NULL REFERENCES ops.writers,
  from_epoch bigint NOT NULL,
  to_epoch bigint,
  content bytea NOT NULL CONSTRAINT changes_content_is_sha256 CHECK (octet_length(content) = 32),
  phase text NOT NULL DEFAULT 'planned' CONSTRAINT changes_phase CHECK (
    phase IN ('planned', 'shadowed', 'closing', 'drained', 'sealed', 'verified', 'advanced', 'completed', 'retired', 'aborted')),
  outcome text CONSTRAINT changes_outcome CHECK (outcome IN ('advanced', 'aborted')),
  rolls_back uuid REFERENCES ops.write_fence_changes,
  grace interval NOT NULL DEFAULT '100 milliseconds',
  deadline interval NOT NULL DEFAULT '2 seconds',
  rollback_window interval NOT NULL DEFAULT '14 days',
  pause_budget interval NOT NULL DEFAULT '1 second',
  predicted_pause interval,
  measured_pause interval,
  plan jsonb NOT NULL DEFAULT '{}',
  shadow jsonb,
  blockers jsonb NOT NULL DEFAULT '[]',
  final_sequence bigint,
  report_id bigint,
  planned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  shadowed_at timestamptz,
  closed_at timestamptz,
  drained_at timestamptz,
  sealed_at timestamptz,
  verified_at timestamptz,
  advanced_at timestamptz,
  aborted_at timestamptz,
  window_ends_at timestamptz,
  completed_at timestamptz,
  retired_at timestamptz,
  ended_by text,
  end_reason text,
  CONSTRAINT changes_go_somewhere CHECK (direction = 'restore' OR from_writer <> to_writer),
  CONSTRAINT changes_times_are_sane CHECK (
    grace BETWEEN interval '1 millisecond' AND interval '1 minute' AND deadline BETWEEN grace AND interval '1 hour'
    AND rollback_window BETWEEN interval '0' AND interval '366 days' AND pause_budget BETWEEN interval '0' AND interval '1 hour'
    AND predicted_pause BETWEEN interval '0' AND interval '366 days'),
  CONSTRAINT changes_times_have_a_year CHECK (
    least(planned_at, shadowed_at, closed_at, drained_at, sealed_at, verified_at, advanced_at, aborted_at, window_ends_at, completed_at, retired_at) >= '0001-02-01 00:00+00'
    AND greatest(planned_at, shadowed_at, closed_at, drained_at, sealed_at, verified_at, advanced_at, aborted_at, window_ends_at, completed_at, retired_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT changes_end_once CHECK (
    (outcome IS NULL) = (phase IN ('planned', 'shadowed', 'closing', 'drained', 'sealed', 'verified'))
    AND (outcome IS NOT DISTINCT FROM 'aborted') = (phase = 'aborted')
    AND (outcome IS NOT DISTINCT FROM 'advanced') = (to_epoch IS NOT NULL)
    AND (outcome IS NOT DISTINCT FROM 'advanced') = (window_ends_at IS NOT NULL)),
  CONSTRAINT changes_rollback_names_its_change CHECK ((direction = 'rollback') = (rolls_back IS NOT NULL))
);
CREATE UNIQUE INDEX changes_one_open_a_scope ON ops.write_fence_changes (scope) WHERE outcome IS NULL;
CREATE INDEX changes_of_scope ON ops.write_fence_changes (scope, planned_at);
CREATE INDEX changes_advanced ON ops.write_fence_changes (advanced_at) WHERE outcome = 'advanced' AND measured_pause IS NOT NULL;

CREATE TABLE ops.write_fence_reports (
  report_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  change_id uuid NOT NULL REFERENCES ops.write_fence_changes,
  made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  sealed_at timestamptz NOT NULL,
  final_sequence bigint NOT NULL,
  passed boolean NOT NULL,
  matters bigint NOT NULL,
  digest bytea NOT NULL CONSTRAINT reports_digest_is_sha256 CHECK (octet_length(digest) = 32),
  findings jsonb NOT NULL CONSTRAINT reports_findings CHECK (jsonb_typeof(findings) = 'array'),
  took interval NOT NULL,
  CONSTRAINT reports_times_have_a_year CHECK (
    least(made_at, sealed_at) >= '0001-02-01 00:00+00' AND greatest(made_at, sealed_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT reports_pass_without_findings CHECK (passed = (findings = '[]'))
);
CREATE INDEX reports_of_change ON ops.write_fence_reports (change_id, report_id);

-- What a person asked for once, whoever had authority then.
CREATE TABLE ops.write_intents (
  intent_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  bucket smallint NOT NULL GENERATED ALWAYS AS (ops.matter_bucket(matter_id)) STORED,
  kind text NOT NULL CONSTRAINT intents_kind CHECK (kind ~ '^[a-z][a-z_]*\.[a-z][a-z_]*$' AND length(kind) <= 100),
  expected_revision bigint,
  payload_digest bytea NOT NULL CONSTRAINT intents_payload_is_sha256 CHECK (octet_length(payload_digest) = 32),
  epoch bigint NOT NULL,
  writer text NOT NULL REFERENCES ops.writers,
  outcome text NOT NULL CONSTRAINT intents_outcome CHECK (outcome IN ('accepted', 'refused', 'unknown')),
  result jsonb,
  result_digest bytea CONSTRAINT intents_result_is_sha256 CHECK (octet_length(result_digest) = 32),
  imported_from text,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  decided_at timestamptz,
  CONSTRAINT intents_times_have_a_year CHECK (
    least(received_at, decided_at) >= '0001-02-01 00:00+00' AND greatest(received_at, decided_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT intents_decided_unless_unknown CHECK (
    (outcome = 'unknown') = (decided_at IS NULL) AND (outcome = 'unknown') = (result IS NULL) AND (result IS NULL) = (result_digest IS NULL))
);
CREATE INDEX intents_of_bucket ON ops.write_intents (bucket, received_at);
CREATE INDEX intents_unknown ON ops.write_intents (bucket) WHERE outcome = 'unknown';

-- Built by the rail while another writer decides; never current, and without effect.
CREATE TABLE ops.shadow_frames (
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  source_sequence bigint NOT NULL,
  bucket smallint NOT NULL GENERATED ALWAYS AS (ops.matter_bucket(matter_id)) STORED,
  frame jsonb NOT NULL CONSTRAINT shadow_frames_are_objects CHECK (jsonb_typeof(frame) = 'object'),
  digest bytea NOT NULL CONSTRAINT shadow_digest_is_sha256 CHECK (octet_length(digest) = 32),
  schema_version text NOT NULL,
  builder_version text NOT NULL,
  built_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  difference text CONSTRAINT shadow_difference CHECK (difference IN ('none', 'representation', 'legacy_unsupported', 'projection_lag', 'migration_defect', 'unknown')),
  rule text,
  details text CONSTRAINT shadow_details_are_short CHECK (length(details) <= 2000),
  compared_at timestamptz,
  PRIMARY KEY (firm_id, matter_id, source_sequence),
  CONSTRAINT shadow_times_have_a_year CHECK (
    least(built_at, compared_at) >= '0001-02-01 00:00+00' AND greatest(built_at, compared_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT shadow_compared_by_a_rule CHECK (
    (difference IS NULL) = (compared_at IS NULL) AND (rule IS NOT NULL) = (difference IS NOT NULL AND difference NOT IN ('none', 'unknown')))
);
CREATE INDEX shadow_of_bucket ON ops.shadow_frames (bucket, difference);

-- How many matters of a bucket differ by what nobody has explained, or were not
-- compared, as their newest shadow has it: an older one is history.
CREATE FUNCTION ops.shadows_unexplained(in_bucket smallint) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FROM ops.shadow_frames s
   WHERE s.bucket = in_bucket AND (s.difference IS NULL OR s.difference IN ('migration_defect', 'unknown'))
     AND NOT EXISTS (SELECT 1 FROM ops.shadow_frames n WHERE n.firm_id = s.firm_id AND n.matter_id = s.matter_id AND n.source_sequence > s.source_sequence)
$$;

-- A shadow holds content: it goes with its matter.
CREATE FUNCTION ops.shadows_go_with_their_matter() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM ops.shadow_frames s USING gone g WHERE s.firm_id = g.firm_id AND s.matter_id = g.matter_id;
  RETURN NULL;
END $$;
CREATE TRIGGER shadows_go_with_their_matter AFTER DELETE ON ops.matter_frame_jobs
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.shadows_go_with_their_matter();

-- What the new writer committed while the old one might still come back. Of each frame
-- only its name: what is in it stands in ops.matter_frames.
CREATE TABLE ops.compatibility_log (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  bucket smallint NOT NULL GENERATED ALWAYS AS (ops.matter_bucket(matter_id)) STORED,
  generation bigint NOT NULL,
  epoch bigint NOT NULL,
  digest bytea NOT NULL,
  committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  exported_at timestamptz,
  CONSTRAINT compatibility_times_have_a_year CHECK (
    least(committed_at, exported_at) >= '0001-02-01 00:00+00' AND greatest(committed_at, exported_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT compatibility_one_a_frame UNIQUE (firm_id, matter_id, generation)
);
CREATE INDEX compatibility_to_export ON ops.compatibility_log (bucket, seq) WHERE exported_at IS NULL;

-- Facts and tries of a writer that is no longer the one. They never reopen history.
CREATE TABLE ops.fence_evidence (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope text COLLATE "C" NOT NULL,
  kind text NOT NULL CONSTRAINT evidence_kind CHECK (kind IN ('late_fact', 'stale_epoch', 'retired_path', 'exercised', 'new_feature', 'hole', 'restore')),
  writer text,
  epoch bigint,
  sequence bigint,
  details jsonb NOT NULL DEFAULT '{}',
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp() CONSTRAINT evidence_has_a_year CHECK (seen_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00')
);
CREATE INDEX evidence_of_scope ON ops.fence_evidence (scope, seen_at);
CREATE INDEX evidence_exercised ON ops.fence_evidence (seen_at) WHERE kind = 'exercised';

-- A hold stops widening (further closings), and nothing else.
CREATE TABLE ops.write_fence_holds (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope text COLLATE "C", -- null: every scope
  watch text NOT NULL CONSTRAINT holds_watch CHECK (watch <> ''),
  details jsonb NOT NULL DEFAULT '{}',
  raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  released_at timestamptz,
  released_by text,
  class text CONSTRAINT holds_class CHECK (class IN ('availability', 'data_integrity', 'routing', 'compatibility', 'external_consequence')),
  reason text CONSTRAINT holds_reason CHECK (btrim(reason) <> ''),
  CONSTRAINT holds_times_have_a_year CHECK (
    least(raised_at, released_at) >= '0001-02-01 00:00+00' AND greatest(raised_at, released_at) <= '9999-12-01 00:00+00'),
  CONSTRAINT holds_released_for_a_reason CHECK (
    (released_at IS NULL) = (released_by IS NULL) AND (released_at IS NULL) = (class IS NULL) AND (released_at IS NULL) = (reason IS NULL))
);
CREATE UNIQUE INDEX holds_one_a_watch ON ops.write_fence_holds (coalesce(scope, ''), watch) WHERE released_at IS NULL;

-- The tables that the fence stands before, and how it reads them: key holds a
-- matter's id, or every row is of one scope; sequence orders the writer's decisions.
CREATE TABLE ops.write_fence_guards (
  guarded regclass PRIMARY KEY,
  key_column name,
  scope text COLLATE "C",
  writer text NOT NULL REFERENCES ops.writers,
  sequence_column name,
  epoch_column name,
  guarded_at timestamptz NOT NULL DEFAULT clock_timestamp() CONSTRAINT guards_have_a_year CHECK (guarded_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  CONSTRAINT guards_know_the_scope CHECK ((key_column IS NULL) <> (scope IS NULL))
);

-- Every way by which a retired writer once wrote, and what became of the last try.
CREATE TABLE ops.writer_paths (
  writer text NOT NULL REFERENCES ops.writers,
  kind text NOT NULL CONSTRAINT paths_kind CHECK (kind IN ('role', 'route', 'script', 'job')),
  path text NOT NULL CONSTRAINT paths_path CHECK (path <> '' AND length(path) <= 500),
  tried_at timestamptz CONSTRAINT paths_have_a_year CHECK (tried_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  refused boolean,
  answer text CONSTRAINT paths_answer_is_short CHECK (length(answer) <= 500),
  PRIMARY KEY (writer, kind, path),
  CONSTRAINT paths_tried_have_a_verdict CHECK ((tried_at IS NULL) = (refused IS NULL))
);

-- 2. The guards.

CREATE FUNCTION ops.authority_refuse(name text, tab text, message text, hint text DEFAULT '') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = tab, CONSTRAINT = name, MESSAGE = message, HINT = hint;
END $$;

CREATE FUNCTION ops.fences_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'open' THEN
      PERFORM ops.authority_refuse('fences_born_open', 'write_fences', 'a fence is born open');
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.scope <> OLD.scope OR NEW.bucket_version <> OLD.bucket_version THEN
    PERFORM ops.authority_refuse('fences_scope_is_fixed', 'write_fences', 'a fence is of one scope');
  END IF;
  IF NOT (OLD.state = 'open' AND NEW.state IN ('open', 'closing') OR OLD.state = 'closing' AND NEW.state IN ('closing', 'sealed', 'open')
          OR OLD.state = 'sealed' AND NEW.state IN ('sealed', 'open')) THEN
    PERFORM ops.authority_refuse('fences_transition', 'write_fences', format('a fence does not go from %s to %s', OLD.state, NEW.state));
  END IF;
  IF NEW.epoch <> OLD.epoch OR NEW.writer <> OLD.writer THEN
    -- a restore may have lost epochs, so that its change skips some
    IF OLD.state <> 'sealed' OR NEW.state <> 'open' OR NEW.change_id IS DISTINCT FROM OLD.change_id OR NEW.epoch <= OLD.epoch
       OR NEW.epoch <> OLD.epoch + 1 AND NOT EXISTS (
         SELECT 1 FROM ops.write_fence_changes c WHERE c.change_id = OLD.change_id AND c.direction = 'restore') THEN
      PERFORM ops.authority_refuse('fences_advance_from_sealed', 'write_fences',
        'writer and epoch change together, from sealed to open, to the next epoch, by the change that sealed');
    END IF;
    IF NOT EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = NEW.writer AND w.status = 'active') THEN
      PERFORM ops.authority_refuse('fences_writer_is_active', 'write_fences', format('writer %s is retired', NEW.writer));
    END IF;
  END IF;
  IF OLD.state <> 'open' AND (NEW.change_id IS DISTINCT FROM OLD.change_id OR NEW.closing_deadline > OLD.closing_deadline) THEN
    PERFORM ops.authority_refuse('fences_closing_is_of_one_change', 'write_fences', 'a closing keeps its change and its deadline');
  END IF;
  IF NEW.effective_revision < OLD.effective_revision THEN
    PERFORM ops.authority_refuse('fences_revision_never_decreases', 'write_fences', 'effective_revision never decreases');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fences_guard BEFORE INSERT OR UPDATE ON ops.write_fences FOR EACH ROW EXECUTE FUNCTION ops.fences_guard();

-- A fence goes when nobody but the rail can write behind it any more.
CREATE FUNCTION ops.fences_stay() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.state <> 'open' OR NOT EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = OLD.writer AND w.kind = 'rail')
     OR EXISTS (SELECT 1 FROM ops.writers w WHERE w.kind = 'external' AND w.status = 'active') THEN
    PERFORM ops.authority_refuse('fences_stay', 'write_fences', format('fence %s stays while a writer that is not the rail is active', OLD.scope),
      'retire the other writers first, then: railctl authority remove');
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER fences_stay BEFORE DELETE ON ops.write_fences FOR EACH ROW EXECUTE FUNCTION ops.fences_stay();
CREATE TRIGGER fences_are_not_truncated BEFORE TRUNCATE ON ops.write_fences
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('fences_stay', 'railctl authority remove');

-- The order of the phases; equal ones are kept, and any unfinished one may be aborted.
CREATE FUNCTION ops.changes_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  names CONSTANT text[] := '{planned,shadowed,closing,drained,sealed,verified,advanced,completed,retired}';
BEGIN
  IF (NEW.change_id, NEW.scope, NEW.cohort, NEW.direction, NEW.from_writer, NEW.to_writer, NEW.from_epoch, NEW.content, NEW.rolls_back, NEW.planned_at,
      NEW.grace, NEW.deadline, NEW.rollback_window, NEW.pause_budget)
     IS DISTINCT FROM (OLD.change_id, OLD.scope, OLD.cohort, OLD.direction, OLD.from_writer, OLD.to_writer, OLD.from_epoch, OLD.content, OLD.rolls_back, OLD.planned_at,
      OLD.grace, OLD.deadline, OLD.rollback_window, OLD.pause_budget) THEN
    PERFORM ops.authority_refuse('changes_content_is_fixed', 'write_fence_changes', 'what a change is about never changes: plan another one');
  END IF;
  IF OLD.phase = 'aborted' OR NEW.phase = 'aborted' AND OLD.outcome IS NOT NULL
     OR NEW.phase <> 'aborted' AND array_position(names, NEW.phase) < array_position(names, OLD.phase) THEN
    PERFORM ops.authority_refuse('changes_go_forward', 'write_fence_changes', format('change %s does not go from %s to %s', OLD.change_id, OLD.phase, NEW.phase));
  END IF;
  IF OLD.outcome IS NOT NULL AND ((to_jsonb(NEW) - '{phase,completed_at,retired_at,window_ends_at,ended_by,end_reason}'::text[])
     IS DISTINCT FROM (to_jsonb(OLD) - '{phase,completed_at,retired_at,window_ends_at,ended_by,end_reason}'::text[])
     OR NEW.window_ends_at > OLD.window_ends_at) THEN
    PERFORM ops.authority_refuse('changes_end_once', 'write_fence_changes', format('change %s has ended; its window may only be shortened', OLD.change_id));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER changes_guard BEFORE UPDATE ON ops.write_fence_changes FOR EACH ROW EXECUTE FUNCTION ops.changes_guard();
CREATE TRIGGER changes_are_history BEFORE DELETE OR TRUNCATE ON ops.write_fence_changes
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('changes_are_history', 'a change is never deleted');
CREATE TRIGGER reports_are_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ops.write_fence_reports
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('reports_are_immutable', 'verify again: each report is a new row');
CREATE TRIGGER evidence_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ops.fence_evidence
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('evidence_is_append_only', 'write a new row instead');
CREATE TRIGGER holds_stay BEFORE DELETE OR TRUNCATE ON ops.write_fence_holds
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('holds_stay', 'release it: ops.release_hold');
CREATE TRIGGER writers_stay BEFORE DELETE OR TRUNCATE ON ops.writers
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('writers_stay', 'retire it instead');

CREATE TRIGGER holds_are_released_once BEFORE UPDATE ON ops.write_fence_holds
  FOR EACH ROW WHEN (OLD.released_at IS NOT NULL OR (NEW.id, NEW.scope, NEW.watch, NEW.raised_at) IS DISTINCT FROM (OLD.id, OLD.scope, OLD.watch, OLD.raised_at))
  EXECUTE FUNCTION ops.refuse('holds_are_released_once', 'a hold that was released is history');

CREATE FUNCTION ops.writers_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.name <> OLD.name OR NEW.kind <> OLD.kind THEN
    PERFORM ops.authority_refuse('writers_are_fixed', 'writers', 'a writer keeps its name and kind: register another one');
  END IF;
  IF OLD.status = 'retired' AND NEW IS DISTINCT FROM OLD THEN
    PERFORM ops.authority_refuse('writers_retire_once', 'writers', format('writer %s is retired for good', OLD.name));
  END IF;
  IF NEW.status = 'retired' AND OLD.status <> 'retired' AND EXISTS (SELECT 1 FROM ops.write_fences f WHERE f.writer = NEW.name) THEN
    PERFORM ops.authority_refuse('writers_retire_without_scopes', 'writers', format('writer %s still has authority', OLD.name));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER writers_guard BEFORE UPDATE ON ops.writers FOR EACH ROW EXECUTE FUNCTION ops.writers_guard();

-- An accepted intent has one result for ever; a refused one may be judged again under
-- a later epoch; an unknown one is cleared up, once.
CREATE FUNCTION ops.intents_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.intent_id, NEW.firm_id, NEW.matter_id, NEW.kind, NEW.expected_revision, NEW.payload_digest, NEW.received_at)
     IS DISTINCT FROM (OLD.intent_id, OLD.firm_id, OLD.matter_id, OLD.kind, OLD.expected_revision, OLD.payload_digest, OLD.received_at) THEN
    PERFORM ops.authority_refuse('intents_content_is_fixed', 'write_intents', 'an intent keeps its content: another one needs an id of its own');
  END IF;
  IF OLD.outcome = 'accepted' AND NEW IS DISTINCT FROM OLD OR OLD.outcome = 'refused' AND NEW.epoch <= OLD.epoch OR NEW.epoch < OLD.epoch THEN
    PERFORM ops.authority_refuse('intents_are_decided_once', 'write_intents', format('intent %s was %s under epoch %s', OLD.intent_id, OLD.outcome, OLD.epoch));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER intents_guard BEFORE UPDATE ON ops.write_intents FOR EACH ROW EXECUTE FUNCTION ops.intents_guard();

-- Intents and the compatibility log are kept while any change is under way or any
-- window is open: until then the other side may have to be asked.
CREATE FUNCTION ops.refuse_while_a_window_is_open() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM ops.write_fence_changes c WHERE c.outcome IS NULL OR c.phase = 'advanced') THEN
    PERFORM ops.authority_refuse(TG_ARGV[0], TG_TABLE_NAME, format('%s of %s is refused while a change or its window is open', lower(TG_OP), TG_TABLE_NAME),
      'complete the changes first');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER intents_stay BEFORE DELETE OR TRUNCATE ON ops.write_intents
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_while_a_window_is_open('intents_stay');
CREATE TRIGGER compatibility_stays BEFORE DELETE OR TRUNCATE ON ops.compatibility_log
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_while_a_window_is_open('compatibility_stays');
