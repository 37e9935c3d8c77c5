-- Moving authority: each step of a change is one function and one transaction, safe to
-- repeat with the same change id, and resumable from rows alone. A step whose moment
-- has passed loses by its WHERE clause. Every verb writes its audit row.

-- Where a scope's fenced writes end: of the rail, its landings; of another writer, its
-- guarded tables. Only a moment's truth, unless lock B is held exclusively.
CREATE FUNCTION ops.fence_final_sequence(in_scope text, in_writer text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  b smallint := (SELECT f.bucket FROM ops.write_fences f WHERE f.scope = in_scope);
  g ops.write_fence_guards;
  highest bigint := 0;
  found_here bigint;
BEGIN
  IF EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = in_writer AND w.kind = 'rail') THEN
    RETURN coalesce((SELECT o.seq FROM ops.domain_event_outbox o WHERE o.bucket = b AND o.event_name = 'brief.landed' ORDER BY o.seq DESC LIMIT 1), 0);
  END IF;
  FOR g IN SELECT * FROM ops.write_fence_guards w WHERE w.writer = in_writer AND w.sequence_column IS NOT NULL LOOP
    IF g.key_column IS NULL THEN
      CONTINUE WHEN g.scope <> in_scope;
      EXECUTE format('SELECT max(%I) FROM %s', g.sequence_column, g.guarded) INTO found_here;
    ELSE
      -- wants an index on (ops.matter_bucket(key), sequence)
      EXECUTE format('SELECT %1$I FROM %2$s WHERE ops.matter_bucket(%3$I) = $1 ORDER BY %1$I DESC NULLS LAST LIMIT 1', g.sequence_column, g.guarded, g.key_column)
        INTO found_here USING b;
    END IF;
    highest := greatest(highest, found_here);
  END LOOP;
  RETURN highest;
END $$;

-- Who is in the way of a closing: whoever holds lock A or B (a session, or a prepared
-- transaction by its gid), the claims that are live, and once it is sealed, facts up to
-- its end that have to be sent on first (as many as a thousand are counted).
CREATE FUNCTION ops.fence_blockers(in_scope text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(b.row ORDER BY b.row->>'kind', b.row->>'since'), '[]') FROM (
    SELECT jsonb_strip_nulls(jsonb_build_object('kind', CASE WHEN l.pid IS NULL THEN 'prepared' ELSE 'transaction' END, 'lock', k.lock, 'gid', p.gid,
             'pid', l.pid, 'role', coalesce(a.usename, p.owner), 'application', a.application_name, 'state', a.state, 'since', coalesce(a.xact_start, p.prepared))) AS row
      FROM (VALUES ('a', ops.fence_key('a', in_scope)), ('b', ops.fence_key('b', in_scope))) AS k (lock, id)
      JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND (l.classid::bigint << 32 | l.objid::bigint) = k.id
      LEFT JOIN pg_stat_activity a ON a.pid = l.pid
      -- a prepared transaction has no process; it is known by the lock on its own id
      LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction
      LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
    UNION ALL
    SELECT jsonb_build_object('kind', 'lease', 'run_id', j.run_id, 'since', j.claimed_at, 'until', j.lease_expires_at)
      FROM ops.matter_frame_jobs j JOIN ops.write_fences f ON f.scope = in_scope AND f.bucket = j.bucket
     WHERE j.run_status = 'running'
    UNION ALL
    SELECT jsonb_build_object('kind', 'publication', 'facts', count(*), 'since', min(o.recorded_at))
      FROM (SELECT x.recorded_at FROM ops.write_fences f JOIN ops.writers w ON w.name = f.writer AND w.kind = 'rail'
              JOIN ops.domain_event_outbox x ON x.bucket = f.bucket AND x.published_at IS NULL AND x.seq <= f.final_sequence
             WHERE f.scope = in_scope AND f.state = 'sealed' AND (SELECT l.publishing FROM ops.ledger l) = 'required' ORDER BY x.seq LIMIT 1000) o
    HAVING count(*) > 0) b
$$;

-- Those who are known to have been in the way, and those who are now, once each.
CREATE FUNCTION ops.blockers_and(known jsonb, in_scope text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(d.b ORDER BY d.n), '[]') FROM (
    SELECT e.b, min(e.n) AS n FROM jsonb_array_elements(known || ops.fence_blockers(in_scope)) WITH ORDINALITY AS e (b, n) GROUP BY e.b) d
$$;

CREATE FUNCTION ops.change_denied(code text, name text, message text, hint text DEFAULT '') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, SCHEMA = 'ops', TABLE = 'write_fence_changes', CONSTRAINT = name, MESSAGE = message, HINT = hint;
END $$;

CREATE FUNCTION ops.change_of(id uuid) RETURNS ops.write_fence_changes
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes;
BEGIN
  SELECT * INTO c FROM ops.write_fence_changes WHERE change_id = id;
  IF NOT FOUND THEN
    PERFORM ops.change_denied('RF404', 'change_unknown', format('there is no change %s', id), 'railctl authority plan');
  END IF;
  RETURN c;
END $$;

-- A change that its verb is going to judge, held: first the row of its fence, then its
-- own, in every verb. What is read here stays true until the verb's commit, so that no
-- two verbs of one scope can each believe that the other has not begun. Writers only
-- read the fence, and never wait for it.
CREATE FUNCTION ops.change_held(id uuid) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_of(id);
BEGIN
  PERFORM ops.fence_reads_fresh(c.scope);
  PERFORM 1 FROM ops.write_fences f WHERE f.scope = c.scope FOR NO KEY UPDATE;
  SELECT * INTO c FROM ops.write_fence_changes x WHERE x.change_id = id FOR NO KEY UPDATE;
  RETURN c;
END $$;

CREATE FUNCTION ops.change_wants(c ops.write_fence_changes, phases text[], verb text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF c.phase <> ALL (phases) THEN
    PERFORM ops.change_denied('RF422', 'change_phase', format('change %s is %s: %s needs %s', c.change_id, c.phase, verb, array_to_string(phases, ' or ')),
      'railctl authority doctor ' || c.scope);
  END IF;
END $$;

-- 1. Who writes, and what.

-- The rights of another writer's roles: to be admitted, and to bring its own in. Those
-- of the rail's roles stand in deploy/roles.sql. What is taken from a role that further
-- writers have too is given back with theirs.
CREATE FUNCTION ops.grant_writer(in_writer text, granted boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r record;
BEGIN
  FOR r IN
    SELECT DISTINCT n.name, n.rights, w.name = in_writer AND NOT granted AS taken FROM ops.writers w CROSS JOIN LATERAL (
      SELECT unnest(w.database_roles), 'ops.admit(text, text, bigint), ops.admit_matter(uuid, text, bigint), ops.matter_bucket(uuid), ops.matter_authority(uuid)'
      UNION ALL
      SELECT w.importer_role, 'ops.import_frame(uuid, uuid, bigint, jsonb, bytea, text, text), ops.import_intent(uuid, uuid, uuid, text, bigint, bytea, text, jsonb, text), '
             'ops.to_export(smallint, integer), ops.note_exported(bigint[]), ops.matter_bucket(uuid)'
       WHERE w.importer_role IS NOT NULL) AS n (name, rights)
      JOIN pg_roles p ON p.rolname = n.name
     WHERE w.kind = 'external' AND (w.name = in_writer OR NOT granted AND w.status = 'active') ORDER BY taken DESC
  LOOP
    IF r.taken THEN
      EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I', r.rights, r.name);
      EXECUTE format('REVOKE USAGE ON SCHEMA ops FROM %I', r.name);
    ELSE
      EXECUTE format('GRANT USAGE ON SCHEMA ops TO %I', r.name);
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', r.rights, r.name);
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION ops.register_writer(name text, kind text, database_roles text[], importer_role text, endpoint text, actor text, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  missing text;
BEGIN
  SELECT r.role INTO missing FROM unnest(database_roles || importer_role) AS r (role)
   WHERE kind = 'external' AND r.role IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_roles p WHERE p.rolname = r.role);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('there is no role %I for writer %s', missing, name), HINT = 'CREATE ROLE first';
  END IF;
  PERFORM ops.grant_writer(w.name, false) FROM ops.writers w WHERE w.name = register_writer.name; -- of the roles that it had
  INSERT INTO ops.writers AS w (name, kind, database_roles, importer_role, endpoint) VALUES (name, kind, database_roles, importer_role, endpoint)
  ON CONFLICT ON CONSTRAINT writers_pkey DO UPDATE
    SET kind = EXCLUDED.kind, database_roles = EXCLUDED.database_roles, importer_role = EXCLUDED.importer_role, endpoint = EXCLUDED.endpoint;
  PERFORM ops.grant_writer(name, true);
  PERFORM ops.audit(actor, 'authority.writer', name, reason, jsonb_build_object('kind', kind, 'roles', database_roles, 'importer', importer_role, 'endpoint', endpoint));
END $$;

-- Says who writes already; it moves nothing. Returns how many scopes are new.
CREATE FUNCTION ops.configure_fences(scopes text[], in_writer text, actor text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n integer;
  taken text;
BEGIN
  PERFORM 1 FROM ops.writers w WHERE w.name = in_writer AND w.status = 'active' FOR SHARE;
  IF NOT FOUND THEN
    PERFORM ops.change_denied('RF422', 'fence_needs_a_writer', format('there is no active writer %s', in_writer), 'railctl authority writers register');
  END IF;
  PERFORM ops.fence_install();
  -- a commit under way was judged without a fence: it is waited for, and seen below
  PERFORM pg_advisory_xact_lock(ops.fence_key('b', n.scope)) FROM (
    SELECT DISTINCT s AS scope FROM unnest(scopes) AS s WHERE NOT EXISTS (SELECT 1 FROM ops.write_fences f WHERE f.scope = s) ORDER BY 1) n;
  INSERT INTO ops.write_fences (scope, writer) SELECT DISTINCT s, in_writer FROM unnest(scopes) AS s ON CONFLICT (scope) DO NOTHING;
  GET DIAGNOSTICS n = ROW_COUNT;
  SELECT f.scope INTO taken FROM ops.write_fences f WHERE f.scope = ANY (scopes) AND f.writer <> in_writer LIMIT 1;
  IF FOUND THEN
    PERFORM ops.change_denied('RF409', 'fence_exists', format('%s has a fence already, of another writer', taken), 'move authority by a change: railctl authority plan');
  END IF;
  SELECT f.scope INTO taken FROM ops.write_fences f JOIN ops.writers w ON w.name = f.writer
   WHERE f.scope = ANY (scopes) AND w.kind = 'external' AND f.epoch = 1
     AND EXISTS (SELECT 1 FROM ops.matter_frames m WHERE m.source = 'rail' AND ops.matter_bucket(m.matter_id) = f.bucket) LIMIT 1;
  IF FOUND THEN
    PERFORM ops.change_denied('RF409', 'fence_rail_writes', format('the rail has landed frames in %s already', taken), 'configure it for the rail, and move it by a change');
  END IF;
  IF n > 0 THEN
    PERFORM ops.audit(actor, 'authority.configure', in_writer, reason, jsonb_build_object('scopes', scopes));
  END IF;
  RETURN n;
END $$;

-- 2. The change.

-- A hold on every scope holds no drill: the dry run of a way back is one.
CREATE FUNCTION ops.no_hold(in_scope text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  h ops.write_fence_holds;
BEGIN
  SELECT * INTO h FROM ops.write_fence_holds WHERE released_at IS NULL AND (scope = in_scope OR scope IS NULL AND in_scope NOT LIKE 'fixture/%') LIMIT 1;
  IF FOUND THEN
    PERFORM ops.change_denied('RF423', 'change_held', format('hold %s (%s) stops widening', h.id, h.watch), 'railctl authority release ' || h.id);
  END IF;
END $$;

-- plan holds what was found: relations, predicted_pause_ms, blocking (reasons why not).
-- options: grace_ms, deadline_ms, window_s, budget_ms, cohort.
CREATE FUNCTION ops.plan_change(change uuid, in_scope text, in_writer text, in_rolls_back uuid, options jsonb, in_plan jsonb, actor text, reason text)
RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes;
  f ops.write_fences;
  of_it bytea := sha256(convert_to(jsonb_build_object('scope', in_scope, 'to', in_writer, 'rolls_back', in_rolls_back, 'options', options)::text, 'UTF8'));
  predicted interval := make_interval(secs => (in_plan->>'predicted_pause_ms')::float8 / 1000);
BEGIN
  SELECT * INTO f FROM ops.write_fences WHERE scope = in_scope FOR NO KEY UPDATE; -- as ops.change_held
  SELECT * INTO c FROM ops.write_fence_changes WHERE change_id = change;
  IF FOUND THEN
    IF c.content <> of_it THEN
      PERFORM ops.change_denied('RF422', 'change_same_id_other_content', format('change %s is about something else', change), 'take a new change id');
    END IF;
    RETURN c;
  END IF;
  IF f.scope IS NULL THEN
    PERFORM ops.change_denied('RF404', 'fence_unknown', format('%s has no fence', in_scope), 'railctl authority configure');
  END IF;
  PERFORM 1 FROM ops.writers w WHERE w.name = in_writer AND w.status = 'active' FOR SHARE;
  IF NOT FOUND OR f.writer = in_writer THEN
    PERFORM ops.change_denied('RF422', 'change_needs_another_writer', format('%s is written by %s; the new one must be another, and active', in_scope, f.writer));
  END IF;
  IF jsonb_array_length(coalesce(in_plan->'blocking', '[]')) > 0 THEN
    PERFORM ops.change_denied('RF422', 'change_plan_blocked', format('%s cannot move: %s', in_scope, in_plan->'blocking'->>0));
  END IF;
  SELECT * INTO c FROM ops.write_fence_changes x WHERE x.scope = in_scope AND x.phase = 'advanced' ORDER BY x.advanced_at DESC LIMIT 1;
  IF in_rolls_back IS NULL THEN
    PERFORM ops.no_hold(in_scope);
    IF c.change_id IS NOT NULL THEN
      PERFORM ops.change_denied('RF422', 'change_window_open', format('the window of change %s is open until %s', c.change_id, c.window_ends_at), 'complete it, or roll it back');
    END IF;
  ELSIF c.change_id IS DISTINCT FROM in_rolls_back OR c.from_writer <> in_writer OR c.window_ends_at <= clock_timestamp() THEN
    PERFORM ops.change_denied('RF422', 'change_window_closed', format('change %s cannot be rolled back to %s: its window is not open', in_rolls_back, in_writer), 'restore, or fix forward');
  END IF;
  IF EXISTS (SELECT 1 FROM ops.write_fence_changes x WHERE x.scope = in_scope AND x.outcome IS NULL) THEN
    PERFORM ops.change_denied('RF409', 'change_one_at_a_time', format('%s has a change under way', in_scope), 'railctl authority doctor ' || in_scope);
  END IF;
  INSERT INTO ops.write_fence_changes (change_id, scope, cohort, direction, from_writer, to_writer, from_epoch, content, rolls_back, grace, deadline, rollback_window, pause_budget, predicted_pause, plan)
  VALUES (change, in_scope, coalesce(options->>'cohort', 'first'), CASE WHEN in_rolls_back IS NULL THEN 'forward' ELSE 'rollback' END, f.writer, in_writer, f.epoch, of_it, in_rolls_back,
    make_interval(secs => coalesce((options->>'grace_ms')::float8, 100) / 1000), make_interval(secs => coalesce((options->>'deadline_ms')::float8, 2000) / 1000),
    make_interval(secs => coalesce((options->>'window_s')::float8, 14 * 86400)), make_interval(secs => coalesce((options->>'budget_ms')::float8, 1000) / 1000), predicted, in_plan)
  ON CONFLICT (change_id) DO NOTHING RETURNING * INTO c;
  IF NOT FOUND THEN -- of another scope, at the same time
    PERFORM ops.change_denied('RF422', 'change_same_id_other_content', format('change %s is about something else', change), 'take a new change id');
  END IF;
  IF c.predicted_pause > c.pause_budget THEN
    PERFORM ops.change_denied('RF422', 'change_over_budget', format('a pause of %s is predicted, and %s allowed', c.predicted_pause, c.pause_budget));
  END IF;
  PERFORM ops.audit(actor, 'authority.plan', in_scope, reason, jsonb_build_object('change', change, 'from', f.writer, 'to', in_writer, 'rolls_back', in_rolls_back));
  RETURN c;
END $$;

-- What the comparison of both sides gave, by class; it may be noted again and again.
CREATE FUNCTION ops.shadow_change(change uuid, summary jsonb, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
BEGIN
  IF c.phase IN ('planned', 'shadowed') THEN
    UPDATE ops.write_fence_changes SET phase = 'shadowed', shadow = summary, shadowed_at = clock_timestamp() WHERE change_id = change RETURNING * INTO c;
    PERFORM ops.audit(actor, 'authority.shadow', c.scope, reason, jsonb_build_object('change', change));
  END IF;
  RETURN c;
END $$;

-- Whether the way back was given up since it was planned: the change that it takes back
-- completed, or its window over. Asked when it closes, and again when it advances: by
-- then the window may have run out, as the closing began within it.
CREATE FUNCTION ops.way_back_stands(c ops.write_fence_changes, at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF c.direction = 'rollback' AND NOT EXISTS (
    SELECT 1 FROM ops.write_fence_changes x WHERE x.change_id = c.rolls_back AND x.phase = 'advanced' AND x.window_ends_at > at) THEN
    PERFORM ops.change_denied('RF422', 'change_window_closed', format('change %s cannot be rolled back to %s: its window is not open', c.rolls_back, c.to_writer),
      'railctl authority abort ' || c.change_id || '; then restore, or fix forward');
  END IF;
END $$;

-- Admission changes here, before anything is waited for.
CREATE FUNCTION ops.close_scope(change uuid, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
  n bigint;
BEGIN
  IF c.outcome IS NOT NULL OR c.phase IN ('closing', 'drained', 'sealed', 'verified') THEN
    RETURN c;
  END IF;
  PERFORM ops.change_wants(c, '{shadowed}', 'close');
  IF c.direction = 'forward' THEN
    PERFORM ops.no_hold(c.scope);
    n := ops.shadows_unexplained((SELECT f.bucket FROM ops.write_fences f WHERE f.scope = c.scope));
    IF n > 0 THEN
      PERFORM ops.change_denied('RF422', 'change_unexplained', format('the shadows of %s matters of %s differ without an explanation, or were not compared', n, c.scope), 'railctl authority shadow');
    END IF;
  ELSE
    PERFORM ops.way_back_stands(c, clock_timestamp());
  END IF;
  UPDATE ops.write_fences SET state = 'closing', change_id = change, closing_deadline = clock_timestamp() + c.deadline, changed_at = clock_timestamp()
   WHERE scope = c.scope AND state = 'open' AND epoch = c.from_epoch AND writer = c.from_writer;
  IF NOT FOUND THEN
    PERFORM ops.change_denied('RF409', 'change_fence_moved', format('%s is no longer open under %s at epoch %s', c.scope, c.from_writer, c.from_epoch));
  END IF;
  UPDATE ops.write_fence_changes SET phase = 'closing', closed_at = clock_timestamp() WHERE change_id = change RETURNING * INTO c;
  PERFORM ops.audit(actor, 'authority.close', c.scope, reason, jsonb_build_object('change', change));
  RETURN c;
END $$;

-- Takes a lock for at most so long; false where somebody held it all the while. No row
-- is locked meanwhile, so that nobody who aborts has to wait.
CREATE FUNCTION ops.fence_lock(id bigint, at_most interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM at_most) * 1000))::bigint || 'ms', true);
  PERFORM pg_advisory_xact_lock(id);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Waits for those who were admitted before the closing, for the grace at most. Who
-- takes longer is noted, and refused at the commit by the seal.
CREATE FUNCTION ops.drain_scope(change uuid) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_of(change);
  waits text := current_setting('lock_timeout');
  in_the_way jsonb;
BEGIN
  IF c.phase <> 'closing' THEN
    PERFORM ops.change_wants(c, '{closing,drained,sealed,verified,advanced,completed,retired,aborted}', 'drain');
    RETURN c;
  END IF;
  IF NOT ops.fence_lock(ops.fence_key('a', c.scope), least(c.grace, c.closed_at + c.deadline - clock_timestamp())) THEN
    in_the_way := ops.blockers_and(c.blockers, c.scope);
  END IF;
  c := ops.change_held(change);
  PERFORM set_config('lock_timeout', waits, true);
  IF c.phase = 'closing' THEN
    UPDATE ops.write_fence_changes SET phase = 'drained', drained_at = clock_timestamp(), blockers = coalesce(in_the_way, blockers) WHERE change_id = change RETURNING * INTO c;
  END IF;
  RETURN c;
END $$;

-- Under lock B no fenced write of this scope can commit, and every one that has
-- committed is seen. phase stays where lock B is not to be had: try again, until the
-- watchdog aborts.
CREATE FUNCTION ops.seal_scope(change uuid) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_of(change);
  waits text := current_setting('lock_timeout');
  locked boolean;
BEGIN
  IF c.phase <> 'drained' THEN
    PERFORM ops.change_wants(c, '{drained,sealed,verified,advanced,completed,retired,aborted}', 'seal');
    RETURN c;
  END IF;
  locked := ops.fence_lock(ops.fence_key('b', c.scope), c.closed_at + c.deadline - clock_timestamp());
  PERFORM ops.change_held(change); -- for as long only, as nobody commits meanwhile
  PERFORM set_config('lock_timeout', waits, true);
  IF NOT locked THEN
    UPDATE ops.write_fence_changes SET blockers = ops.blockers_and(blockers, scope) WHERE change_id = change AND phase = 'drained';
    RETURN ops.change_of(change);
  END IF;
  UPDATE ops.write_fences SET state = 'sealed', changed_at = clock_timestamp(),
         final_sequence = ops.fence_final_sequence(c.scope, c.from_writer)
   WHERE scope = c.scope AND change_id = change AND state = 'closing' AND closing_deadline > clock_timestamp()
  RETURNING final_sequence INTO c.final_sequence;
  IF FOUND THEN
    UPDATE ops.write_fence_changes SET phase = 'sealed', sealed_at = clock_timestamp(), final_sequence = c.final_sequence WHERE change_id = change;
  END IF;
  RETURN ops.change_of(change);
END $$;

-- Stores a verification, whatever it says. It is of this closing only.
CREATE FUNCTION ops.report_change(change uuid, matters bigint, digest bytea, findings jsonb, took interval) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
  r bigint;
BEGIN
  IF c.outcome IS NOT NULL THEN
    RETURN c;
  END IF;
  PERFORM ops.change_wants(c, '{sealed,verified}', 'a report');
  INSERT INTO ops.write_fence_reports (change_id, sealed_at, final_sequence, passed, matters, digest, findings, took)
  VALUES (change, c.sealed_at, c.final_sequence, findings = '[]', matters, digest, findings, took) RETURNING report_id INTO r;
  UPDATE ops.write_fence_changes SET report_id = r, phase = CASE WHEN findings = '[]' THEN 'verified' ELSE phase END,
         verified_at = CASE WHEN findings = '[]' THEN clock_timestamp() END
   WHERE change_id = change RETURNING * INTO c;
  RETURN c;
END $$;

-- The crossing itself: from denied to both, to open to the new writer, with no state
-- in between.
CREATE FUNCTION ops.advance_scope(change uuid, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
BEGIN
  IF c.outcome IS NOT NULL THEN
    RETURN c;
  END IF;
  PERFORM ops.change_wants(c, '{verified}', 'advance');
  IF NOT EXISTS (SELECT 1 FROM ops.write_fence_reports r WHERE r.report_id = c.report_id AND r.change_id = change AND r.passed AND r.sealed_at = c.sealed_at) THEN
    PERFORM ops.change_denied('RF422', 'change_needs_its_report', format('the last report of change %s did not pass', change), 'railctl authority verify ' || change);
  END IF;
  PERFORM ops.way_back_stands(c, c.closed_at);
  UPDATE ops.write_fences SET state = 'open', epoch = epoch + 1, writer = c.to_writer, closing_deadline = NULL, changed_at = clock_timestamp(),
         effective_revision = greatest(effective_revision, final_sequence)
   WHERE scope = c.scope AND change_id = change AND state = 'sealed' AND epoch = c.from_epoch AND closing_deadline > clock_timestamp()
  RETURNING epoch INTO c.to_epoch;
  IF NOT FOUND THEN
    RETURN c;
  END IF;
  -- a crossing back ends the window of the one that it takes back, and has none
  UPDATE ops.write_fence_changes
     SET phase = CASE WHEN direction = 'rollback' THEN 'completed' ELSE 'advanced' END, outcome = 'advanced', to_epoch = c.to_epoch,
         advanced_at = clock_timestamp(), measured_pause = clock_timestamp() - closed_at, ended_by = actor, end_reason = reason,
         window_ends_at = clock_timestamp() + CASE WHEN direction = 'rollback' THEN interval '0' ELSE rollback_window END,
         completed_at = CASE WHEN direction = 'rollback' THEN clock_timestamp() END
   WHERE change_id = change RETURNING * INTO c;
  UPDATE ops.write_fence_changes SET phase = 'completed', completed_at = clock_timestamp(), window_ends_at = least(window_ends_at, clock_timestamp())
   WHERE change_id = c.rolls_back AND phase = 'advanced';
  PERFORM ops.audit(actor, 'authority.advance', c.scope, reason,
    jsonb_build_object('change', change, 'epoch', c.to_epoch, 'writer', c.to_writer, 'final_sequence', c.final_sequence, 'report', c.report_id));
  RETURN c;
END $$;

-- Back to the old writer under the same epoch. What a restore closed ends in another
-- way.
CREATE FUNCTION ops.abort_change(change uuid, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
  in_the_way jsonb;
BEGIN
  IF c.outcome IS NOT NULL OR c.direction = 'restore' THEN
    RETURN c;
  END IF;
  in_the_way := ops.blockers_and(c.blockers, c.scope); -- while it is closed
  UPDATE ops.write_fences SET state = 'open', closing_deadline = NULL, changed_at = clock_timestamp()
   WHERE scope = c.scope AND change_id = change AND state <> 'open';
  UPDATE ops.write_fence_changes SET phase = 'aborted', outcome = 'aborted', aborted_at = clock_timestamp(), ended_by = actor, end_reason = reason,
         blockers = in_the_way, measured_pause = clock_timestamp() - closed_at
   WHERE change_id = change RETURNING * INTO c;
  PERFORM ops.audit(actor, 'authority.abort', c.scope, reason, jsonb_build_object('change', change, 'was_closed', c.closed_at IS NOT NULL));
  RETURN c;
END $$;

-- The watchdog, for every daemon: closings past their deadline are taken back, and so
-- is one that outlived its change, however that came about: nobody else would open it.
CREATE FUNCTION ops.abort_overdue(daemon text) RETURNS SETOF ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  overdue uuid;
  c ops.write_fence_changes;
  late CONSTANT text := 'the closing was not finished by its deadline';
BEGIN
  FOR overdue IN SELECT f.change_id FROM ops.write_fences f WHERE f.state <> 'open' AND f.closing_deadline <= clock_timestamp() ORDER BY f.scope LOOP
    c := ops.abort_change(overdue, daemon, late);
    UPDATE ops.write_fences SET state = 'open', closing_deadline = NULL, changed_at = clock_timestamp()
     WHERE scope = c.scope AND change_id = overdue AND state <> 'open' AND c.outcome IS NOT NULL AND closing_deadline <= clock_timestamp();
    IF FOUND THEN
      PERFORM ops.audit(daemon, 'authority.abort', c.scope, late, jsonb_build_object('change', overdue, 'ended_before', c.outcome));
    END IF;
    RETURN NEXT c;
  END LOOP;
END $$;

-- Ends the window: from now on, restore or fix forward. Not while a way back has closed
-- the scope: one of the two has to win. One that is only planned is refused when it
-- closes.
CREATE FUNCTION ops.complete_change(change uuid, actor text, reason text) RETURNS ops.write_fence_changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_held(change);
  back uuid;
BEGIN
  PERFORM ops.change_wants(c, '{advanced,completed,retired}', 'complete');
  SELECT x.change_id INTO back FROM ops.write_fence_changes x
   WHERE x.rolls_back = change AND x.outcome IS NULL AND x.phase NOT IN ('planned', 'shadowed');
  IF FOUND THEN
    PERFORM ops.change_denied('RF422', 'complete_meets_a_rollback', format('change %s is being rolled back by change %s', change, back), 'railctl authority abort ' || back);
  END IF;
  IF c.phase = 'advanced' THEN
    UPDATE ops.write_fence_changes SET phase = 'completed', completed_at = clock_timestamp(), window_ends_at = least(window_ends_at, clock_timestamp())
     WHERE change_id = change RETURNING * INTO c;
    PERFORM ops.audit(actor, 'authority.complete', c.scope, reason, jsonb_build_object('change', change));
  END IF;
  RETURN c;
END $$;
