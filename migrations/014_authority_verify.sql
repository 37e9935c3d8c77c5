-- What a crossing rests on, asked of the whole scope: functions, because the rows are
-- of many owners. Nothing here is locked; a sealed scope does not move.

-- The frame that is current of each matter, as the other side would have to see it.
CREATE FUNCTION ops.scope_heads(in_scope text) RETURNS TABLE (firm uuid, matter uuid, revision bigint, digest bytea, source text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT j.firm_id, j.matter_id, coalesce(f.source_sequence, f.generation), f.digest, f.source
    FROM ops.write_fences w JOIN ops.matter_frame_jobs j ON j.bucket = w.bucket
    JOIN ops.matter_frames f ON f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation
   WHERE w.scope = in_scope
$$;

CREATE FUNCTION ops.scope_digest(in_scope text) RETURNS TABLE (matters bigint, digest bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*), sha256(coalesce(string_agg(uuid_send(h.firm) || uuid_send(h.matter) || h.digest, '' ORDER BY h.firm, h.matter), '')) FROM ops.scope_heads(in_scope) h
$$;

-- Matters of a guarded table whose newest decision is not imported, up to a sequence.
CREATE FUNCTION ops.not_imported(in_scope text, in_writer text, up_to bigint) RETURNS TABLE (matter uuid, sequence bigint, imported bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  b smallint := (SELECT w.bucket FROM ops.write_fences w WHERE w.scope = in_scope);
  g ops.write_fence_guards;
BEGIN
  FOR g IN SELECT * FROM ops.write_fence_guards w WHERE w.writer = in_writer AND w.key_column IS NOT NULL AND w.sequence_column IS NOT NULL LOOP
    RETURN QUERY EXECUTE format(
      'WITH f AS MATERIALIZED (SELECT matter_id, max(source_sequence) AS newest FROM ops.matter_frames WHERE ops.matter_bucket(matter_id) = $1 AND source = ''import'' GROUP BY matter_id), '
      't AS MATERIALIZED (SELECT %1$I AS matter_id, max(%2$I) AS newest FROM %3$s WHERE ops.matter_bucket(%1$I) = $1 AND %2$I <= $2 GROUP BY %1$I) '
      'SELECT matter_id, t.newest, f.newest FROM t LEFT JOIN f USING (matter_id) WHERE t.newest > coalesce(f.newest, 0) LIMIT 20', g.key_column, g.sequence_column, g.guarded)
      USING b, up_to;
  END LOOP;
END $$;

-- Each row is one thing that is not as it has to be, twenty of a kind at most. Seven
-- invariants, and what must be done before a crossing: everything imported, or exported
-- on the way back, no intent whose outcome is unknown, and the rail's facts published
-- where they have to be.
CREATE FUNCTION ops.verify_scope(in_scope text, in_writer text, up_to bigint) RETURNS TABLE (check_name text, firm uuid, matter uuid, detail text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  b smallint := (SELECT w.bucket FROM ops.write_fences w WHERE w.scope = in_scope);
  rails boolean := EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = in_writer AND w.kind = 'rail');
  loops CONSTANT text := current_setting('enable_nestloop');
BEGIN
  -- What is about jobs, runs and frames is one statement, so that each of them is read once.
  -- How many rows a bucket has is guessed badly: by nested loops, should they look cheap,
  -- every matter would be compared with every other. (What is dear by that name would be
  -- compiled, which takes a second.)
  PERFORM set_config('enable_nestloop', 'off', true);
  RETURN QUERY
  WITH j AS MATERIALIZED (
    SELECT firm_id, matter_id, landed_generation FROM ops.matter_frame_jobs WHERE bucket = b
  ), f AS MATERIALIZED (
    SELECT firm_id, matter_id, generation, run_id, source, source_sequence, authority_epoch,
           max(source_sequence) OVER before AS sequence_before, max(authority_epoch) OVER before AS epoch_before
      FROM ops.matter_frames WHERE ops.matter_bucket(matter_id) = b
    WINDOW before AS (PARTITION BY firm_id, matter_id ORDER BY generation ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  ), kept AS MATERIALIZED (
    SELECT firm_id, matter_id, min(generation) AS oldest, max(generation) AS newest FROM f GROUP BY firm_id, matter_id
  ), landed AS MATERIALIZED (
    SELECT r.* FROM j CROSS JOIN LATERAL (
      SELECT r.run_id, r.firm_id, r.matter_id, r.generation, r.authority_epoch FROM ops.matter_frame_runs r
       WHERE r.firm_id = j.firm_id AND r.matter_id = j.matter_id AND r.outcome = 'landed' OFFSET 0) r
  )
  (SELECT 'ids_unique', firm_id, matter_id, format('sequence %s stands in %s frames', source_sequence, count(*))
     FROM f WHERE source = 'import' GROUP BY firm_id, matter_id, source_sequence HAVING count(*) > 1 LIMIT 20)
  UNION ALL
  (SELECT 'ids_unique', min(firm_id::text)::uuid, matter_id, format('the matter is of %s firms', count(*)) FROM j GROUP BY matter_id HAVING count(*) > 1 LIMIT 20)
  UNION ALL
  (SELECT 'revisions_in_sequence', firm_id, matter_id, format('generation %s: sequence %s after %s, epoch %s after %s', generation, source_sequence, sequence_before, authority_epoch, epoch_before)
     FROM f WHERE source_sequence <= sequence_before OR authority_epoch < epoch_before LIMIT 20)
  UNION ALL
  -- a generation that landed nothing says why in its run; one that says it landed, and
  -- is younger than the oldest frame that is kept, has its frame
  (SELECT 'revisions_in_sequence', firm_id, matter_id, format('run %s landed generation %s, and there is no frame', l.run_id, l.generation)
     FROM landed l JOIN kept k USING (firm_id, matter_id) LEFT JOIN f USING (firm_id, matter_id, generation) WHERE l.generation > k.oldest AND f.run_id IS NULL LIMIT 20)
  UNION ALL
  (SELECT 'current_is_highest', firm_id, matter_id, format('generation %s is current, and the highest frame is %s', landed_generation, coalesce(newest, 0))
     FROM j LEFT JOIN kept USING (firm_id, matter_id) WHERE landed_generation <> coalesce(newest, 0) LIMIT 20)
  UNION ALL
  (SELECT 'frames_have_runs', f.firm_id, f.matter_id, format('generation %s: run %s is %s', f.generation, f.run_id, coalesce((
            SELECT r.outcome || ' of epoch ' || r.authority_epoch FROM ops.matter_frame_runs r
             WHERE r.run_id = f.run_id AND r.firm_id = f.firm_id AND r.matter_id = f.matter_id AND r.generation = f.generation), 'missing'))
     FROM f LEFT JOIN landed l ON (l.run_id, l.firm_id, l.matter_id, l.generation, l.authority_epoch) = (f.run_id, f.firm_id, f.matter_id, f.generation, f.authority_epoch)
    WHERE l.run_id IS NULL AND EXISTS (SELECT 1 FROM j WHERE j.firm_id = f.firm_id AND j.matter_id = f.matter_id) LIMIT 20)
  UNION ALL
  (SELECT 'relations_valid', firm_id, matter_id, format('generation %s belongs to no job', oldest)
     FROM kept LEFT JOIN j USING (firm_id, matter_id) WHERE landed_generation IS NULL LIMIT 20);
  PERFORM set_config('enable_nestloop', loops, true);

  RETURN QUERY SELECT 'intents_one_result', i.firm_id, i.matter_id, format('intent %s: its result is another than its digest says', i.intent_id)
    FROM ops.write_intents i WHERE i.bucket = b AND i.outcome = 'accepted' AND i.result_digest <> sha256(convert_to(i.result::text, 'UTF8')) LIMIT 20;

  RETURN QUERY SELECT 'relations_valid', i.firm_id, i.matter_id, format('intent %s belongs to a matter of another firm', i.intent_id)
    FROM ops.write_intents i WHERE i.bucket = b AND i.outcome = 'accepted'
     AND EXISTS (SELECT 1 FROM ops.matter_frame_jobs j WHERE j.bucket = b AND j.matter_id = i.matter_id)
     AND NOT EXISTS (SELECT 1 FROM ops.matter_frame_jobs j WHERE j.firm_id = i.firm_id AND j.matter_id = i.matter_id) LIMIT 20;

  -- each landing has told its fact; facts go with retention, so only what is younger
  -- than the matter's oldest fact is counted
  RETURN QUERY SELECT 'outbox_accounted', j.firm_id, j.matter_id, format('%s landings since %s, and %s facts of them', k.landings, k.since, k.facts)
    FROM ops.matter_frame_jobs j CROSS JOIN LATERAL (
      SELECT o.since, (SELECT count(*) FROM ops.matter_frames f WHERE f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.source = 'rail' AND f.built_at > o.since) AS landings,
             (SELECT count(*) FROM ops.domain_event_outbox e WHERE e.firm_id = j.firm_id AND e.matter_id = j.matter_id AND e.event_name = 'brief.landed') AS facts
        FROM (SELECT e.recorded_at AS since FROM ops.domain_event_outbox e WHERE e.firm_id = j.firm_id AND e.matter_id = j.matter_id ORDER BY e.seq LIMIT 1) o) k
   WHERE j.bucket = b AND k.facts < k.landings LIMIT 20;

  RETURN QUERY SELECT 'imported', NULL::uuid, n.matter, format('sequence %s is not imported, only %s', n.sequence, coalesce(n.imported, 0)) FROM ops.not_imported(in_scope, in_writer, up_to) n;
  RETURN QUERY SELECT 'exported', l.firm_id, l.matter_id, format('generation %s has not reached the old side', l.generation)
    FROM ops.write_fences w JOIN ops.write_fence_changes c ON c.scope = w.scope AND c.phase = 'advanced' AND c.to_epoch = w.epoch
    JOIN ops.compatibility_log l ON l.bucket = w.bucket AND l.epoch = w.epoch AND l.exported_at IS NULL WHERE w.scope = in_scope AND rails ORDER BY l.seq LIMIT 20;
  RETURN QUERY SELECT 'intents_unknown', i.firm_id, i.matter_id, format('nobody knows what became of intent %s', i.intent_id) FROM ops.write_intents i WHERE i.bucket = b AND i.outcome = 'unknown' LIMIT 20;
  RETURN QUERY SELECT 'publication', o.firm_id, o.matter_id, format('fact %s of sequence %s is not published', o.event_id, o.seq)
    FROM ops.domain_event_outbox o WHERE rails AND o.bucket = b AND o.published_at IS NULL AND o.seq <= up_to AND (SELECT l.publishing FROM ops.ledger l) = 'required' ORDER BY o.seq LIMIT 20;
END $$;

-- Foreign keys between guarded tables, and how many rows of the scope they tie to a
-- matter of another scope: what a plan has to have an answer for.
CREATE FUNCTION ops.relations_cut(in_scope text) RETURNS TABLE (relation text, ties bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r record;
BEGIN
  FOR r IN
    SELECT k.conname, c.guarded AS child, p.guarded AS parent, c.key_column AS child_key, p.key_column AS parent_key,
           (SELECT string_agg(format('c.%I = p.%I', a.attname, q.attname), ' AND ')
              FROM unnest(k.conkey, k.confkey) AS u (mine, theirs)
              JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.mine JOIN pg_attribute q ON q.attrelid = k.confrelid AND q.attnum = u.theirs) AS joined
      FROM pg_constraint k JOIN ops.write_fence_guards c ON c.guarded = k.conrelid JOIN ops.write_fence_guards p ON p.guarded = k.confrelid
     WHERE k.contype = 'f' AND c.key_column IS NOT NULL AND p.key_column IS NOT NULL
  LOOP
    RETURN QUERY EXECUTE format(
      'SELECT %L::text, count(*) FROM %s c JOIN %s p ON %s JOIN ops.write_fences w ON w.scope = $1 '
      'WHERE (ops.matter_bucket(c.%I) = w.bucket) <> (ops.matter_bucket(p.%I) = w.bucket)',
      r.child::text || '.' || r.conname, r.child, r.parent, r.joined, r.child_key, r.parent_key) USING in_scope;
  END LOOP;
END $$;

-- The way there and back, played in a fixture between the same two writers and taken
-- back: null where it works, or what went wrong.
CREATE FUNCTION ops.prove_reverse(in_from text, in_to text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  there uuid := gen_random_uuid();
  back uuid := gen_random_uuid();
  place text := 'fixture/reverse-' || there;
  who CONSTANT text := 'dry run';
BEGIN
  PERFORM ops.configure_fences(ARRAY[place], in_from, who, who);
  PERFORM ops.plan_change(there, place, in_to, NULL, '{"deadline_ms": 60000}', '{}', who, who);
  PERFORM ops.play_crossing(there, who);
  PERFORM ops.plan_change(back, place, in_from, there, '{"deadline_ms": 60000}', '{}', who, who);
  PERFORM ops.play_crossing(back, who);
  IF EXISTS (SELECT 1 FROM ops.write_fences f WHERE f.scope = place AND f.state = 'open' AND f.writer = in_from AND f.epoch = 3) THEN
    RAISE EXCEPTION USING ERRCODE = 'RF001', MESSAGE = 'proved';
  END IF;
  RAISE EXCEPTION 'it did not come back';
EXCEPTION
  WHEN SQLSTATE 'RF001' THEN -- not RF000: one that ends so stands for all of its class
    RETURN NULL;
  WHEN OTHERS THEN
    RETURN 'the way back does not work: ' || SQLERRM;
END $$;

CREATE FUNCTION ops.play_crossing(change uuid, who text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM ops.shadow_change(change, '{}', who, who);
  PERFORM ops.close_scope(change, who, who);
  PERFORM ops.drain_scope(change);
  PERFORM ops.seal_scope(change);
  PERFORM ops.report_change(change, 0, sha256(''), '[]', interval '0');
  PERFORM ops.advance_scope(change, who, who);
END $$;

-- What keeps a writer from writing.
CREATE FUNCTION ops.writer_unready(in_writer text) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(x.why), '{}') FROM (
    SELECT format('writer %s is retired', w.name) AS why FROM ops.writers w WHERE w.name = in_writer AND w.status = 'retired'
    UNION ALL
    SELECT format('no role of %s may write %s', w.name, g.guarded) FROM ops.writers w JOIN ops.write_fence_guards g ON g.writer = w.name
     WHERE w.name = in_writer AND NOT EXISTS (
       SELECT 1 FROM pg_roles p WHERE p.rolname = ANY (w.database_roles) AND has_table_privilege(p.oid, g.guarded, 'INSERT, UPDATE'))) x
$$;

-- What keeps a scope from moving, beside its relations.
CREATE FUNCTION ops.move_unready(in_scope text, in_to text) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f ops.write_fences;
  w ops.writers;
  why text[] := '{}';
  broken text;
BEGIN
  SELECT * INTO f FROM ops.write_fences x WHERE x.scope = in_scope;
  FOR w IN SELECT * FROM ops.writers x WHERE x.name IN (f.writer, in_to) AND x.kind = 'external' LOOP
    IF f.bucket IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ops.write_fence_guards g WHERE g.writer = w.name AND g.key_column IS NOT NULL AND g.sequence_column IS NOT NULL) THEN
      why := why || format('no guarded table of %s orders its decisions: railctl authority guard, with a sequence', w.name);
    END IF;
    IF f.writer = w.name AND w.importer_role IS NULL THEN
      why := why || format('writer %s has no importer', w.name);
    END IF;
    why := why || ops.writer_unready(w.name) || ARRAY(
      SELECT format('the ledger cannot read %s: %s', g.guarded, l.missing) FROM ops.write_fence_guards g
       CROSS JOIN LATERAL ops.guard_lacks(g.guarded, g.key_column, g.sequence_column) AS l (missing) WHERE g.writer = w.name AND l.missing IS NOT NULL);
  END LOOP;
  SELECT string_agg(format('%s has lost its fence', g.guarded), '; ') INTO broken FROM ops.write_fence_guards g
   WHERE NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = g.guarded AND t.tgname = 'write_fence' AND t.tgenabled = 'A');
  why := why || broken || ops.unfenced_tables() || ops.prove_reverse(f.writer, in_to);
  RETURN array_remove(why, NULL);
END $$;

-- The rail's own tables whose fence somebody took away or switched off.
CREATE FUNCTION ops.unfenced_tables() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(format('%s has lost its fence', u.rel), '; ') FROM (VALUES ('ops.matter_frames'::regclass), ('ops.write_intents')) AS u (rel)
   WHERE NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = u.rel AND t.tgname = 'write_fence' AND t.tgenabled = 'A')
$$;

-- What the rail has not yet built in the shadow, of the newest imported frames.
CREATE FUNCTION ops.shadow_todo(in_scope text, at_most integer) RETURNS TABLE (firm uuid, matter uuid, sequence bigint, frame jsonb, digest bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT j.firm_id, j.matter_id, f.source_sequence, f.frame, f.digest
    FROM ops.write_fences w JOIN ops.matter_frame_jobs j ON j.bucket = w.bucket
    JOIN ops.matter_frames f ON f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation AND f.source = 'import'
   WHERE w.scope = in_scope AND NOT EXISTS (
     SELECT 1 FROM ops.shadow_frames s WHERE s.firm_id = f.firm_id AND s.matter_id = f.matter_id AND s.source_sequence = f.source_sequence AND s.compared_at IS NOT NULL)
   ORDER BY j.firm_id, j.matter_id LIMIT at_most
$$;

-- How the newest shadow of each matter compares, by class and rule.
CREATE FUNCTION ops.shadow_summary(in_scope text) RETURNS TABLE (difference text, rule text, matters bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(s.difference, 'not compared'), coalesce(s.rule, ''), count(*)
    FROM (SELECT DISTINCT ON (s.firm_id, s.matter_id) s.* FROM ops.write_fences w JOIN ops.shadow_frames s ON s.bucket = w.bucket
           WHERE w.scope = in_scope ORDER BY s.firm_id, s.matter_id, s.source_sequence DESC) s
   GROUP BY 1, 2 ORDER BY 1, 2
$$;

-- What only the new writer can do waits for the end of the window: a gate asks this
-- before it is used, and what passed in spite of that stands in the way back.
CREATE FUNCTION ops.may_use_new(in_matter uuid, feature text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT 1 FROM ops.write_fence_changes c
    WHERE c.scope = ops.fence_scope(ops.matter_bucket(in_matter)) AND c.phase = 'advanced' AND c.window_ends_at > clock_timestamp())
$$;

-- The five conditions of a way back, each with what is in its way.
CREATE FUNCTION ops.rollback_conditions(change uuid, most_lag interval, newest_drill interval) RETURNS TABLE (name text, met boolean, detail text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c ops.write_fence_changes := ops.change_of(change);
  f ops.write_fences;
  n bigint;
  lag interval;
  broken text;
BEGIN
  SELECT * INTO f FROM ops.write_fences x WHERE x.scope = c.scope;
  broken := ops.unfenced_tables();
  RETURN QUERY SELECT 'only_writer', f.state = 'open' AND f.writer = c.to_writer AND f.epoch = c.to_epoch AND c.phase = 'advanced' AND c.window_ends_at > clock_timestamp() AND broken IS NULL,
    coalesce(broken, format('%s is %s under %s at epoch %s; the window of the change ends %s', f.scope, f.state, f.writer, f.epoch, coalesce(c.window_ends_at::text, 'never')));

  SELECT count(*), clock_timestamp() - min(l.committed_at) INTO n, lag FROM ops.compatibility_log l
   WHERE l.bucket = f.bucket AND l.epoch = c.to_epoch AND l.exported_at IS NULL;
  RETURN QUERY SELECT 'exported', n = 0 OR lag <= most_lag, format('%s frames are not exported, the oldest for %s', n, coalesce(lag, interval '0'));

  SELECT count(*) INTO n FROM ops.fence_evidence e WHERE e.scope = c.scope AND e.kind = 'new_feature' AND e.seen_at >= c.advanced_at;
  RETURN QUERY SELECT 'nothing_new_used', n = 0, format('%s uses of what only %s can do', n, c.to_writer);

  -- every frame of the new epoch was named to the old side as it was committed
  SELECT count(*) INTO n FROM ops.matter_frames m WHERE ops.matter_bucket(m.matter_id) = f.bucket AND m.source = 'rail' AND m.authority_epoch = c.to_epoch
     AND NOT EXISTS (SELECT 1 FROM ops.compatibility_log l WHERE l.firm_id = m.firm_id AND l.matter_id = m.matter_id AND l.generation = m.generation);
  RETURN QUERY SELECT 'effects_known', n = 0, format('%s frames that the old side was never told of', n);

  SELECT string_agg(w, '; ') INTO broken FROM unnest(ops.writer_unready(c.from_writer)) AS w;
  lag := (SELECT clock_timestamp() - max(e.seen_at) FROM ops.fence_evidence e WHERE e.kind = 'exercised' AND e.details->>'event' = 'restore');
  RETURN QUERY SELECT 'old_side_ready', broken IS NULL AND lag IS NOT NULL AND lag <= newest_drill,
    coalesce(broken || '; ', '') || CASE WHEN lag IS NULL THEN 'no restore drill is on record' ELSE format('the last restore drill is %s old', lag) END;
END $$;

-- The kinds of events that a cohort has been through since it crossed: what has to be
-- seen there before another cohort follows.
CREATE FUNCTION ops.cohort_events(in_cohort text) RETURNS TABLE (event text, seen boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH crossed AS (
    SELECT f.scope, f.bucket, f.epoch, min(c.advanced_at) AS since
      FROM ops.write_fence_changes c JOIN ops.write_fences f ON f.scope = c.scope WHERE c.cohort = in_cohort AND c.outcome = 'advanced' GROUP BY f.scope
  )
  SELECT 'edit', EXISTS (SELECT 1 FROM crossed c JOIN ops.write_intents i ON i.bucket = c.bucket AND i.outcome = 'accepted' AND i.epoch = c.epoch)
  UNION ALL
  SELECT 'stale_client', EXISTS (SELECT 1 FROM crossed c JOIN ops.fence_evidence e ON e.scope = c.scope AND e.kind = 'stale_epoch' AND e.seen_at >= c.since)
  UNION ALL
  SELECT 'build', EXISTS (SELECT 1 FROM crossed c JOIN ops.matter_frames m ON ops.matter_bucket(m.matter_id) = c.bucket AND m.source = 'rail' AND m.authority_epoch = c.epoch)
  UNION ALL
  SELECT 'delivery', EXISTS (SELECT 1 FROM crossed c JOIN ops.compatibility_log l ON l.bucket = c.bucket AND l.epoch = c.epoch AND l.exported_at IS NOT NULL)
  UNION ALL
  SELECT k.kind, EXISTS (SELECT 1 FROM crossed c JOIN ops.fence_evidence e ON e.scope = c.scope AND e.kind = 'exercised' AND e.details->>'event' = k.kind AND e.seen_at >= c.since)
    FROM (VALUES ('deletion'), ('restore')) AS k (kind)
$$;

-- What is watched, by scope, over the last while. baseline is the same figure of the
-- time before, where there is one.
CREATE FUNCTION ops.fence_watches(span interval) RETURNS TABLE (scope text, watch text, value float8, baseline float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH moved AS (
    SELECT f.* FROM ops.write_fences f WHERE f.scope NOT LIKE 'fixture/%' AND EXISTS (SELECT 1 FROM ops.write_fence_changes c WHERE c.scope = f.scope AND c.outcome = 'advanced')
  )
  SELECT m.scope, 'intents_without_result', count(*)::float8, NULL::float8 FROM moved m JOIN ops.write_intents i ON i.bucket = m.bucket AND i.outcome = 'unknown' GROUP BY m.scope
  UNION ALL
  SELECT e.scope, CASE e.kind WHEN 'stale_epoch' THEN 'stale_epoch_refusals' WHEN 'late_fact' THEN 'late_facts' ELSE 'retired_paths' END,
         count(*) FILTER (WHERE e.seen_at > clock_timestamp() - span)::float8, count(*) FILTER (WHERE e.seen_at <= clock_timestamp() - span)::float8
    FROM moved m JOIN ops.fence_evidence e ON e.scope = m.scope AND e.kind IN ('stale_epoch', 'late_fact', 'retired_path') AND e.seen_at > clock_timestamp() - 2 * span
   GROUP BY e.scope, e.kind
  UNION ALL
  SELECT m.scope, 'revision_conflicts', count(*) FILTER (WHERE i.decided_at > clock_timestamp() - span)::float8, count(*) FILTER (WHERE i.decided_at <= clock_timestamp() - span)::float8
    FROM moved m JOIN ops.write_intents i ON i.bucket = m.bucket AND i.outcome = 'refused' AND i.decided_at > clock_timestamp() - 2 * span GROUP BY m.scope
  UNION ALL
  SELECT m.scope, 'projection_lag_seconds', extract(epoch FROM clock_timestamp() - min(l.committed_at))::float8, NULL
    FROM moved m JOIN ops.write_fence_changes c ON c.scope = m.scope AND c.phase = 'advanced'
    JOIN ops.compatibility_log l ON l.bucket = m.bucket AND l.epoch = c.to_epoch AND l.exported_at IS NULL GROUP BY m.scope
  UNION ALL
  SELECT m.scope, 'unexplained_differences', n::float8, NULL FROM moved m CROSS JOIN LATERAL ops.shadows_unexplained(m.bucket) AS n WHERE n > 0
  UNION ALL
  SELECT 'system', 'retired_paths', count(*)::float8, NULL FROM ops.writer_paths p WHERE p.refused = false HAVING count(*) > 0
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ops FROM PUBLIC;
