-- What crosses: imported frames, and intents. And the ends: retirement, removal,
-- holds, evidence, and what a restore leaves behind.

-- The application sees one firm here too, whatever owner a function runs as, and under
-- whatever name its account logs in: membership counts, as it does for the policies on
-- frames. Who also belongs to a role that sees every firm sees every firm.
CREATE FUNCTION ops.sees_firm(firm uuid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN EXISTS (
    SELECT 1 FROM pg_roles r
     WHERE r.rolname IN ('rail_app', 'rail_worker', 'rail_readonly') AND pg_has_role(ops.acting_role()::name, r.oid, 'USAGE')
    HAVING bool_and(r.rolname = 'rail_app'))
  THEN coalesce(firm = ops.session_firm(), false) ELSE true END;

-- A frame's revision: the old writer's sequence of an imported one, the generation of
-- a landed one. 0 where there is none.
CREATE FUNCTION ops.matter_revision(firm uuid, matter uuid) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT coalesce(f.source_sequence, f.generation) FROM ops.matter_frame_jobs j
    JOIN ops.matter_frames f ON f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation
   WHERE j.firm_id = $1 AND j.matter_id = $2 AND ops.sees_firm($1)), 0)
$$;

-- A frame of the old writer comes in as a claim by key and its landing in one
-- transaction. Demand that the ledger holds stays owed, as old as it is: what the old
-- writer knew when it built is not known here. The same sequence again is the same
-- frame, or an error; an older one than the newest is refused, as is a live claim of
-- the rail, which ends or expires by itself. Returns the generation.
CREATE FUNCTION ops.import_frame(firm uuid, matter uuid, in_sequence bigint, in_frame jsonb, in_digest bytea, in_schema text, in_builder text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_scope text := ops.fence_scope(ops.matter_bucket(matter));
  fence ops.write_fences;
  j ops.matter_frame_jobs;
  f record;
  number bigint;
  run uuid := gen_random_uuid();
  owed boolean;
BEGIN
  SELECT * INTO fence FROM ops.write_fences w WHERE w.scope = in_scope;
  -- refused before anything is locked; judged again at the commit
  PERFORM ops.fence_commit_import(in_scope, fence.epoch, in_sequence);
  INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status) VALUES (firm, matter, 'idle') ON CONFLICT DO NOTHING;
  SELECT * INTO j FROM ops.matter_frame_jobs x WHERE x.firm_id = firm AND x.matter_id = matter FOR UPDATE;
  SELECT x.generation, x.source_sequence, x.digest INTO f FROM ops.matter_frames x
   WHERE x.firm_id = firm AND x.matter_id = matter AND x.source = 'import' AND x.source_sequence >= in_sequence ORDER BY x.source_sequence LIMIT 1;
  IF FOUND THEN
    IF f.source_sequence <> in_sequence OR f.digest <> in_digest THEN
      PERFORM ops.fence_denied('RF409', 'import_in_order', in_scope,
        format('%s/%s: sequence %s is imported already%s', firm, matter, f.source_sequence, CASE WHEN f.source_sequence = in_sequence THEN ' with another digest' ELSE '' END));
    END IF;
    RETURN f.generation;
  END IF;
  IF j.run_status = 'running' AND j.lease_expires_at > clock_timestamp() THEN
    PERFORM ops.fence_denied('RF503', 'import_meets_a_claim', in_scope, format('%s/%s: a claim of the rail is live until %s', firm, matter, j.lease_expires_at));
  END IF;
  owed := j.requested_generation > j.landed_generation;
  IF j.run_status = 'parked' THEN
    UPDATE ops.matter_frame_jobs SET run_status = 'queued', parked_by = NULL, parked_reason = NULL, queued_at = clock_timestamp(), not_before = clock_timestamp()
     WHERE firm_id = firm AND matter_id = matter;
  END IF;
  number := greatest(j.requested_generation, (SELECT max(r.generation) FROM ops.matter_frame_runs r WHERE r.firm_id = firm AND r.matter_id = matter)) + 1;
  UPDATE ops.matter_frame_jobs
     SET run_status = 'running', requested_generation = number, claimed_generation = number, run_id = run, claimed_at = clock_timestamp(),
         lease_expires_at = clock_timestamp() + interval '1 minute', attempts = attempts + 1, owed_since = coalesce(owed_since, clock_timestamp()),
         authority_epoch = greatest(authority_epoch, fence.epoch), rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL
   WHERE firm_id = firm AND matter_id = matter;
  INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, worker, builder, authority_epoch)
  SELECT run, firm, matter, number, x.attempts, left(ops.acting_role(), 200), 'import', fence.epoch FROM ops.matter_frame_jobs x WHERE x.firm_id = firm AND x.matter_id = matter;
  -- demand as it was: during this claim, so that the landing queues it again
  IF owed THEN
    UPDATE ops.matter_frame_jobs
       SET requested_generation = number + greatest(1, demands_owed), demands_owed = greatest(1, demands_owed),
           rebuild_needed = true, rebuild_since = j.owed_since, rebuild_priority = least(j.priority, j.rebuild_priority)
     WHERE firm_id = firm AND matter_id = matter;
  END IF;
  UPDATE ops.matter_frame_jobs
     SET landed_generation = number, run_status = CASE WHEN owed THEN 'queued' ELSE 'idle' END, run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
         attempts = 0, demands_owed = requested_generation - number, owed_since = rebuild_since, queued_at = rebuild_since,
         not_before = CASE WHEN owed THEN clock_timestamp() END, priority = coalesce(rebuild_priority, priority),
         rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL
   WHERE firm_id = firm AND matter_id = matter;
  INSERT INTO ops.matter_frames (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, authority_epoch, run_id, source, source_sequence)
  VALUES (firm, matter, number, in_frame, in_digest, in_schema, in_builder, fence.epoch, run, 'import', in_sequence);
  UPDATE ops.matter_frame_runs SET outcome = 'landed', finished_at = clock_timestamp() WHERE run_id = run;
  -- what a person or failures have parked stays parked
  IF j.run_status = 'parked' THEN
    UPDATE ops.matter_frame_jobs SET run_status = 'parked', parked_by = j.parked_by, parked_reason = j.parked_reason WHERE firm_id = firm AND matter_id = matter;
  END IF;
  RETURN number;
END $$;

-- Compared with what is imported of the same sequence. rule names why a difference is
-- expected; 'none' and 'unknown' have none.
CREATE FUNCTION ops.keep_shadow(firm uuid, matter uuid, in_sequence bigint, in_frame jsonb, in_digest bytea, in_schema text, in_builder text,
  in_difference text, in_rule text, in_details text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO ops.shadow_frames (firm_id, matter_id, source_sequence, frame, digest, schema_version, builder_version, difference, rule, details, compared_at)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, left($10, 2000), CASE WHEN $8 IS NOT NULL THEN clock_timestamp() END
    FROM ops.matter_frame_jobs j WHERE j.firm_id = $1 AND j.matter_id = $2 FOR KEY SHARE -- not of one that is purged meanwhile
  ON CONFLICT (firm_id, matter_id, source_sequence) DO UPDATE
    SET frame = EXCLUDED.frame, digest = EXCLUDED.digest, schema_version = EXCLUDED.schema_version, builder_version = EXCLUDED.builder_version, built_at = clock_timestamp(),
        difference = EXCLUDED.difference, rule = EXCLUDED.rule, details = EXCLUDED.details, compared_at = EXCLUDED.compared_at
$$;

-- 2. Intents. The answer says what became of it:
--   accepted, refused, unknown   the stored outcome; replayed where it was there before
--   other_digest                 the id is taken by something else: payload_digest is that one's, and result names
--                                what differs
--   epoch_changed                authority is elsewhere or later: epoch, writer, endpoint
--   other_firm                   the application's session acts for another firm
--   closing                      come back after retry_after with the same intent
CREATE TYPE ops.intent_answer AS (
  verdict text, replayed boolean, epoch bigint, writer text, endpoint text, revision bigint, result jsonb, result_digest bytea,
  payload_digest bytea, decided_at timestamptz, retry_after interval, firm_id uuid, matter_id uuid);

CREATE FUNCTION ops.find_intent(id uuid) RETURNS ops.intent_answer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.outcome, true, i.epoch, i.writer, w.endpoint, ops.matter_revision(i.firm_id, i.matter_id), i.result, i.result_digest, i.payload_digest, i.decided_at, NULL::interval, i.firm_id, i.matter_id
    FROM ops.write_intents i JOIN ops.writers w ON w.name = i.writer WHERE i.intent_id = $1 AND ops.sees_firm(i.firm_id)
$$;

-- What an intent says otherwise than the stored one of its id. The epoch is not part of
-- it, as the same intent comes again under a later one; nor is a revision that an old
-- writer did not keep.
CREATE FUNCTION ops.intent_unlike(i ops.write_intents, firm uuid, matter uuid, in_kind text, expected bigint, in_digest bytea) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN array_remove(ARRAY[
  CASE WHEN i.firm_id IS DISTINCT FROM firm THEN 'firm_id' END, CASE WHEN i.matter_id IS DISTINCT FROM matter THEN 'matter_id' END,
  CASE WHEN i.kind IS DISTINCT FROM in_kind THEN 'kind' END, CASE WHEN i.payload_digest IS DISTINCT FROM in_digest THEN 'payload_digest' END,
  CASE WHEN i.expected_revision IS DISTINCT FROM expected AND NOT (i.imported_from IS NOT NULL AND i.expected_revision IS NULL) THEN 'expected_revision' END], NULL);

CREATE FUNCTION ops.submit_intent(id uuid, firm uuid, matter uuid, in_kind text, expected bigint, in_digest bytea, in_epoch bigint) RETURNS ops.intent_answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  b smallint := ops.matter_bucket(matter);
  in_scope text := ops.fence_scope(b);
  f record;
  i ops.write_intents;
  a ops.intent_answer;
  unlike text[];
  round integer := 0;
BEGIN
  IF NOT ops.sees_firm(firm) THEN
    a.verdict := 'other_firm'; -- than that of SET LOCAL rail.firm_id
    RETURN a;
  END IF;
  a.firm_id := firm;
  a.matter_id := matter;
  IF in_kind IS DISTINCT FROM 'brief.regenerate' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('intent kind %L is not known: use brief.regenerate', left(in_kind, 100));
  END IF;
  IF id IS NULL OR firm IS NULL OR matter IS NULL OR octet_length(in_digest) IS DISTINCT FROM 32 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'an intent has an id, a firm, a matter, and a SHA-256 of its payload (32 bytes)';
  END IF;
  -- the first round is before the lock is waited for, the second with it
  LOOP
    round := round + 1;
    SELECT x.epoch, x.state, w.name, w.kind, w.endpoint INTO f FROM ops.writers w
      LEFT JOIN ops.write_fences x ON x.bucket = b
     WHERE w.name = x.writer OR x.writer IS NULL AND w.kind = 'rail' AND NOT EXISTS (SELECT 1 FROM ops.write_fences y WHERE y.bucket = b);
    a.epoch := coalesce(f.epoch, 1);
    a.writer := f.name;
    a.endpoint := f.endpoint;
    SELECT * INTO i FROM ops.write_intents x WHERE x.intent_id = id;
    IF FOUND THEN
      unlike := ops.intent_unlike(i, firm, matter, in_kind, expected, in_digest);
      IF unlike <> '{}' THEN
        a := ops.find_intent(id);
        a.verdict := 'other_digest';
        a.result := jsonb_build_object('differs', unlike);
        RETURN a;
      END IF;
      IF i.outcome <> 'refused' OR i.epoch >= a.epoch OR f.kind <> 'rail' THEN
        RETURN ops.find_intent(id);
      END IF;
    END IF;
    IF f.kind <> 'rail' OR coalesce(in_epoch, a.epoch) <> a.epoch THEN
      -- once a second is enough for the watches, and all that is kept of a flood
      IF in_epoch < a.epoch AND NOT EXISTS (
        SELECT 1 FROM ops.fence_evidence e WHERE e.scope = in_scope AND e.kind = 'stale_epoch' AND e.seen_at > clock_timestamp() - interval '1 second') THEN
        PERFORM ops.note_evidence(in_scope, 'stale_epoch', NULL, in_epoch, NULL, jsonb_build_object('intent', id));
      END IF;
      a.verdict := 'epoch_changed';
      RETURN a;
    END IF;
    IF f.state <> 'open' THEN
      a.verdict := 'closing';
      a.retry_after := ops.fence_retry_after(in_scope);
      RETURN a;
    END IF;
    EXIT WHEN round > 1;
    PERFORM pg_advisory_xact_lock_shared(ops.fence_key('a', in_scope));
    -- and two of the same id, or of one matter, come one after the other
    PERFORM pg_advisory_xact_lock(hashtextextended('ops.intent:' || id, 0));
    PERFORM 1 FROM ops.matter_frame_jobs j WHERE j.firm_id = firm AND j.matter_id = matter FOR UPDATE;
  END LOOP;
  a.revision := ops.matter_revision(firm, matter);
  a.decided_at := clock_timestamp();
  a.payload_digest := in_digest;
  a.replayed := false;
  IF expected IS NOT NULL AND expected <> a.revision THEN
    a.verdict := 'refused';
    a.result := jsonb_build_object('refused', 'revision_conflict', 'expected', expected, 'revision', a.revision);
  ELSE
    a.verdict := 'accepted';
    a.result := jsonb_build_object('requested_generation', (
      SELECT d.requested_generation FROM ops.demand(ARRAY[firm], ARRAY[matter], '{1}', '{0}', '{0}', interval '0') d));
  END IF;
  a.result_digest := sha256(convert_to(a.result::text, 'UTF8'));
  INSERT INTO ops.write_intents AS x (intent_id, firm_id, matter_id, kind, expected_revision, payload_digest, epoch, writer, outcome, result, result_digest, decided_at)
  VALUES (id, firm, matter, in_kind, expected, in_digest, a.epoch, a.writer, a.verdict, a.result, a.result_digest, a.decided_at)
  ON CONFLICT (intent_id) DO UPDATE SET epoch = EXCLUDED.epoch, writer = EXCLUDED.writer, outcome = EXCLUDED.outcome,
    result = EXCLUDED.result, result_digest = EXCLUDED.result_digest, decided_at = EXCLUDED.decided_at;
  RETURN a;
END $$;

-- An intent of the old writer, by its importer. outcome unknown blocks the crossing
-- until it is imported again with what became of it; the same again changes nothing, and
-- another of the same id is an error.
CREATE FUNCTION ops.import_intent(id uuid, firm uuid, matter uuid, in_kind text, expected bigint, in_digest bytea, in_outcome text, in_result jsonb, source text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_scope text := ops.fence_scope(ops.matter_bucket(matter));
  f ops.write_fences;
  i ops.write_intents;
BEGIN
  SELECT * INTO f FROM ops.write_fences w WHERE w.scope = in_scope;
  PERFORM ops.fence_commit_import(in_scope, f.epoch, NULL);
  INSERT INTO ops.write_intents AS x (intent_id, firm_id, matter_id, kind, expected_revision, payload_digest, epoch, writer, outcome, result, result_digest, imported_from, decided_at)
  SELECT id, firm, matter, in_kind, expected, in_digest, f.epoch, f.writer, in_outcome, r.result, sha256(convert_to(r.result::text, 'UTF8')), source,
         CASE WHEN in_outcome <> 'unknown' THEN clock_timestamp() END
    FROM (SELECT CASE WHEN in_outcome <> 'unknown' THEN coalesce(in_result, '{}') END AS result) r
  ON CONFLICT (intent_id) DO UPDATE SET outcome = EXCLUDED.outcome, result = EXCLUDED.result, result_digest = EXCLUDED.result_digest, decided_at = EXCLUDED.decided_at
   WHERE x.outcome = 'unknown';
  SELECT * INTO i FROM ops.write_intents x WHERE x.intent_id = id;
  IF ops.intent_unlike(i, firm, matter, in_kind, expected, in_digest) <> '{}' THEN
    PERFORM ops.fence_denied('RF409', 'import_intent_differs', in_scope, format('intent %s is known already, and says otherwise', id));
  END IF;
END $$;

-- Who decides for a matter, and where: what a reader is told beside a frame.
CREATE FUNCTION ops.matter_authority(matter uuid) RETURNS TABLE (scope text, epoch bigint, writer text, kind text, endpoint text, state text, retry_after interval)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.scope, coalesce(f.epoch, 1), w.name, w.kind, w.endpoint, coalesce(f.state, 'open'), CASE WHEN f.state <> 'open' THEN ops.fence_retry_after(s.scope) END
    FROM (SELECT ops.fence_scope(ops.matter_bucket($1)) AS scope) s LEFT JOIN ops.write_fences f ON f.scope = s.scope
    JOIN ops.writers w ON w.name = f.writer OR f.writer IS NULL AND w.kind = 'rail'
$$;

-- 3. The ends.

-- A crossing whose window is over: nothing of its old writer is needed here any more.
CREATE FUNCTION ops.retire_change(change uuid, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
BEGIN
  PERFORM ops.change_wants(c, '{completed,retired}', 'retire');
  IF c.phase = 'completed' THEN
    UPDATE ops.write_fence_changes SET phase = 'retired', retired_at = clock_timestamp() WHERE change_id = change RETURNING * INTO c;
    PERFORM ops.audit(actor, 'authority.retire', c.scope, reason, jsonb_build_object('change', change, 'writer', c.from_writer));
  END IF;
  RETURN c;
END $$;

-- When it writes nothing any more, a writer is retired for good. Whether it was one.
CREATE FUNCTION ops.retire_writer(in_writer text, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  pending ops.write_fence_changes;
BEGIN
  -- a plan for it ends first, or sees that it is retired
  PERFORM 1 FROM ops.writers w WHERE w.name = in_writer AND w.kind = 'external' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM ops.change_denied('RF422', 'retire_needs_another_writer', format('%s is the rail itself, or nobody', in_writer), 'railctl authority writers');
  END IF;
  SELECT * INTO pending FROM ops.write_fence_changes c WHERE in_writer IN (c.from_writer, c.to_writer) AND c.phase NOT IN ('retired', 'aborted', 'completed') LIMIT 1;
  IF FOUND THEN
    PERFORM ops.change_denied('RF422', 'retire_has_open_changes', format('change %s of %s is %s', pending.change_id, pending.scope, pending.phase), 'complete it first');
  END IF;
  UPDATE ops.writers SET status = 'retired', retired_at = clock_timestamp() WHERE name = in_writer AND status = 'active';
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM ops.grant_writer(in_writer, false);
  PERFORM ops.audit(actor, 'authority.retire_writer', in_writer, reason);
  RETURN true;
END $$;

-- What the roles of a writer may still change in this database, beside their own login:
-- nothing, once it is retired. Owning a table is the right to change it.
CREATE FUNCTION ops.writer_rights(in_writer text) RETURNS TABLE (role text, what text, rights text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.rolname::text, c.oid::regclass::text, concat_ws(', ', CASE WHEN c.relowner = r.oid THEN 'OWNER' END,
           (SELECT string_agg(p, ', ') FROM unnest('{INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS p WHERE has_table_privilege(r.oid, c.oid, p)))
    FROM ops.writers w CROSS JOIN LATERAL unnest(w.database_roles || w.importer_role) AS n (name)
    JOIN pg_roles r ON r.rolname = n.name
    JOIN pg_class c ON c.relkind IN ('r', 'p') AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND c.relpersistence <> 't'
   WHERE w.name = in_writer AND (c.relowner = r.oid OR has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))
  UNION ALL
  SELECT r.rolname, 'login', 'LOGIN' FROM ops.writers w CROSS JOIN LATERAL unnest(w.database_roles || w.importer_role) AS n (name)
    JOIN pg_roles r ON r.rolname = n.name AND r.rolcanlogin WHERE w.name = in_writer
$$;

-- Every bucket is the rail's and every other writer retired: nobody pays for the fence
-- any more. Its history stays. Returns how many fences went.
CREATE FUNCTION ops.remove_authority(actor text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n integer;
  guarded_still regclass;
BEGIN
  SELECT g.guarded INTO guarded_still FROM ops.write_fence_guards g LIMIT 1;
  IF FOUND THEN
    PERFORM ops.change_denied('RF422', 'remove_has_guards', format('%s is still guarded', guarded_still), 'ops.unguard_table, by the owner of the table');
  END IF;
  DELETE FROM ops.write_fences;
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM ops.fence_uninstall();
  PERFORM ops.audit(actor, 'authority.remove', 'all', reason, jsonb_build_object('fences', n));
  RETURN n;
END $$;

-- A restored ledger may be older than what was decided after the backup: every scope
-- stays closed, without a deadline, until a new epoch is opened by a person who knows.
-- Returns how many scopes it closed.
CREATE FUNCTION ops.close_restored(actor text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f ops.write_fences;
  id uuid;
  n integer := 0;
BEGIN
  PERFORM 1 FROM ops.write_fences x ORDER BY x.scope FOR NO KEY UPDATE; -- all of them, in the order of every verb
  PERFORM ops.abort_change(c.change_id, actor, reason) FROM ops.write_fence_changes c WHERE c.outcome IS NULL AND c.direction <> 'restore';
  -- a closing that outlived its change
  UPDATE ops.write_fences SET state = 'open', closing_deadline = NULL WHERE state <> 'open' AND closing_deadline <> 'infinity';
  FOR f IN SELECT * FROM ops.write_fences WHERE state = 'open' ORDER BY scope LOOP
    id := gen_random_uuid();
    INSERT INTO ops.write_fence_changes (change_id, scope, direction, from_writer, to_writer, from_epoch, content, phase, closed_at, sealed_at, final_sequence)
    VALUES (id, f.scope, 'restore', f.writer, f.writer, f.epoch, sha256('restore'), 'sealed', clock_timestamp(), clock_timestamp(), f.effective_revision);
    UPDATE ops.write_fences SET state = 'closing', change_id = id, closing_deadline = 'infinity', changed_at = clock_timestamp() WHERE scope = f.scope;
    UPDATE ops.write_fences SET state = 'sealed', final_sequence = f.effective_revision WHERE scope = f.scope;
    n := n + 1;
  END LOOP;
  IF n > 0 THEN
    PERFORM ops.audit(actor, 'authority.restored', 'all', reason, jsonb_build_object('scopes', n));
  END IF;
  RETURN n;
END $$;

-- epoch must lie above every one that was ever handed out, in the lost history too.
CREATE FUNCTION ops.open_restored(in_scope text, in_writer text, in_epoch bigint, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes;
BEGIN
  PERFORM 1 FROM ops.write_fences f WHERE f.scope = in_scope FOR NO KEY UPDATE;
  SELECT x.* INTO c FROM ops.write_fence_changes x JOIN ops.write_fences f ON f.change_id = x.change_id
   WHERE f.scope = in_scope AND x.direction = 'restore' AND f.state = 'sealed';
  IF NOT FOUND THEN
    PERFORM ops.change_denied('RF422', 'restore_not_closed', format('%s is not closed by a restore', in_scope));
  END IF;
  IF in_epoch <= c.from_epoch THEN
    PERFORM ops.change_denied('RF422', 'restore_needs_a_later_epoch', format('%s was at epoch %s when it was closed: %s is not later', in_scope, c.from_epoch, in_epoch));
  END IF;
  UPDATE ops.write_fences SET state = 'open', epoch = in_epoch, writer = in_writer, closing_deadline = NULL, changed_at = clock_timestamp() WHERE scope = in_scope;
  UPDATE ops.write_fence_changes SET phase = 'completed', outcome = 'advanced', to_epoch = in_epoch, advanced_at = clock_timestamp(), completed_at = clock_timestamp(),
         window_ends_at = clock_timestamp(), ended_by = actor, end_reason = reason WHERE change_id = c.change_id RETURNING * INTO c;
  PERFORM ops.audit(actor, 'authority.open_restored', in_scope, reason, jsonb_build_object('epoch', in_epoch, 'writer', in_writer));
  RETURN c;
END $$;

-- 4. Holds, evidence, the canary, the compatibility log.

CREATE FUNCTION ops.raise_hold(in_scope text, in_watch text, in_details jsonb) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO ops.write_fence_holds AS h (scope, watch, details) VALUES ($1, $2, coalesce($3, '{}'))
  ON CONFLICT (coalesce(scope, ''), watch) WHERE released_at IS NULL DO UPDATE SET details = EXCLUDED.details RETURNING id
$$;

CREATE FUNCTION ops.release_hold(hold bigint, in_class text, actor text, in_reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE ops.write_fence_holds SET released_at = clock_timestamp(), released_by = actor, class = in_class, reason = in_reason WHERE id = hold AND released_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM ops.audit(actor, 'authority.release', 'hold ' || hold, in_reason, jsonb_build_object('class', in_class));
  RETURN true;
END $$;

CREATE FUNCTION ops.note_evidence(in_scope text, in_kind text, in_writer text, in_epoch bigint, in_sequence bigint, in_details jsonb) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO ops.fence_evidence (scope, kind, writer, epoch, sequence, details) VALUES ($1, $2, $3, $4, $5, coalesce($6, '{}')) RETURNING id
$$;

CREATE FUNCTION ops.watch_path(in_writer text, in_kind text, in_path text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO ops.writer_paths (writer, kind, path) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION ops.note_path(in_writer text, in_kind text, in_path text, in_refused boolean, in_answer text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE ops.writer_paths SET tried_at = clock_timestamp(), refused = $4, answer = left($5, 500) WHERE writer = $1 AND kind = $2 AND path = $3
$$;

-- What the rail committed while a writer may come back, and that writer's importer has
-- not taken over yet, oldest first; every bucket where in_bucket is null. There is no
-- frame where retention took it: a newer one of the matter follows.
CREATE FUNCTION ops.to_export(in_bucket smallint, at_most integer)
RETURNS TABLE (seq bigint, bucket smallint, firm uuid, matter uuid, generation bigint, frame jsonb, digest bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.seq, l.bucket, l.firm_id, l.matter_id, l.generation, m.frame, l.digest
    FROM ops.write_fence_changes c JOIN ops.writers w ON w.name = c.from_writer AND w.importer_role = ops.acting_role()
    JOIN ops.write_fences f ON f.scope = c.scope AND (in_bucket IS NULL OR f.bucket = in_bucket)
    JOIN ops.compatibility_log l ON l.bucket = f.bucket AND l.epoch = c.to_epoch AND l.exported_at IS NULL
    LEFT JOIN ops.matter_frames m ON m.firm_id = l.firm_id AND m.matter_id = l.matter_id AND m.generation = l.generation
   WHERE c.phase = 'advanced' ORDER BY l.seq LIMIT at_most
$$;

-- These have reached the old side, by their positions: one by one, as a row of a lower
-- position may have committed since they were read. Returns how many that was.
CREATE FUNCTION ops.note_exported(seqs bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  UPDATE ops.compatibility_log SET exported_at = clock_timestamp() WHERE seq = ANY (seqs) AND exported_at IS NULL;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
