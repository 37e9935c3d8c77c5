-- Retention: the only way out for a row. Small batches, never the current frame,
-- its run, a fact that is not done, or a receipt whose fact is still here.

-- The statements of ops.refuse_to_others, each with the function it stands in.
CREATE FUNCTION ops.own_statements() RETURNS TABLE (caller text, statement text)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  VALUES
  ('ops.prune(text,interval,integer)', 'DELETE FROM ops.domain_event_outbox WHERE event_id = ANY (done)'),
  ('ops.prune(text,interval,integer)', 'DELETE FROM ops.trigger_receipts WHERE event_id = ANY (done)'),
  ('ops.prune(text,interval,integer)', 'DELETE FROM ops.matter_frame_runs WHERE run_id = ANY (done)'),
  ('ops.prune_frames(uuid[],uuid[],integer)', 'DELETE FROM ops.matter_frames f USING unnest(firms, matters, oldest_kept) AS k (firm, matter, oldest) WHERE f.firm_id = k.firm AND f.matter_id = k.matter AND (f.generation < k.oldest)'),
  ('ops.purge_matter(uuid,uuid,text,text)', 'DELETE FROM ops.matter_frame_jobs WHERE firm_id = firm AND (matter_id = matter)'),
  ('ops.purge_matter(uuid,uuid,text,text)', 'DELETE FROM ops.matter_frames WHERE firm_id = firm AND (matter_id = matter)'),
  ('ops.purge_matter(uuid,uuid,text,text)', 'DELETE FROM ops.matter_frame_runs WHERE firm_id = firm AND (matter_id = matter)'),
  ('ops.count_what_left()', $s$UPDATE ops.retention_counters SET taken = taken + g.n FROM (SELECT count(*) AS n FROM gone) g WHERE what = TG_ARGV[0] AND TG_TABLE_SCHEMA = 'ops' AND (g.n > 0)$s$),
  ('ops.runs_count_what_left()', $s$UPDATE ops.retention_counters c SET taken = c.taken + g.n FROM (SELECT 'runs' AS what, count(*) AS n FROM gone UNION ALL SELECT 'landed_runs', count(*) FROM gone WHERE outcome = 'landed') g WHERE c.what = g.what AND TG_TABLE_SCHEMA = 'ops' AND (g.n > 0)$s$)
$$;

-- Deletes at most batch rows of one kind ('outbox', 'receipts', 'runs') that are
-- done and older than older; returns how many went. What may go is looked for in the
-- order in which it lies on disk, which is that of age: joined in the order of random
-- ids, or with a hash table, each row that goes would dirty a page of its own.
CREATE FUNCTION ops.prune(kind text, older interval, batch integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET enable_mergejoin = off SET enable_hashjoin = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
  horizon timestamptz := clock_timestamp() - older;
  done uuid[];
  n bigint;
BEGIN
  IF older < interval '0' OR batch < 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'older may not be negative, batch at least 1';
  END IF;
  CASE kind
  WHEN 'outbox' THEN
    -- somebody has facts judged again: the next round is soon enough
    IF NOT pg_try_advisory_xact_lock(hashtextextended('ops.keep_facts', 0)) THEN
      RETURN 0;
    END IF;
    -- the receipt too must have rested a while: the check for receipts without a
    -- fact looks at the younger ones only; a parked fact waits for a person
    done := ARRAY(
      SELECT o.event_id FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r ON r.event_id = o.event_id
       WHERE o.recorded_at < horizon AND r.decided_at < clock_timestamp() - least(older, interval '1 hour')
         AND (o.published_at IS NOT NULL OR (SELECT publishing FROM ops.ledger) = 'none')
         AND NOT EXISTS (SELECT 1 FROM ops.outbox_undecided u WHERE u.seq = o.seq)
         AND NOT EXISTS (SELECT 1 FROM ops.outbox_failures f WHERE f.event_id = o.event_id AND f.parked_at IS NOT NULL)
       LIMIT batch);
    DELETE FROM ops.domain_event_outbox WHERE event_id = ANY (done);
  WHEN 'receipts' THEN
    done := ARRAY(
      SELECT r.event_id FROM ops.trigger_receipts r
       WHERE r.decided_at < horizon AND NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = r.event_id)
       LIMIT batch);
    DELETE FROM ops.trigger_receipts WHERE event_id = ANY (done);
  WHEN 'runs' THEN
    done := ARRAY(
      SELECT r.run_id FROM ops.matter_frame_runs r
       WHERE r.started_at < horizon AND r.outcome <> 'running'
         AND NOT EXISTS (SELECT 1 FROM ops.matter_frames f WHERE f.run_id = r.run_id)
       LIMIT batch);
    DELETE FROM ops.matter_frame_runs WHERE run_id = ANY (done);
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('cannot prune %L: use outbox, receipts or runs', kind);
  END CASE;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Keeps the newest keep frames of each matter; the current one is the newest.
CREATE FUNCTION ops.prune_frames(firms uuid[], matters uuid[], keep integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  oldest_kept bigint[];
  n bigint;
BEGIN
  IF keep < 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'keep at least 1 frame a matter';
  END IF;
  -- null where there are no more than keep, so that none of them is older
  oldest_kept := ARRAY(
    SELECT (SELECT g.generation FROM ops.matter_frames g WHERE g.firm_id = u.firm AND g.matter_id = u.matter
             ORDER BY g.generation DESC OFFSET keep - 1 LIMIT 1)
      FROM unnest(firms, matters) WITH ORDINALITY AS u (firm, matter, place) ORDER BY u.place);
  DELETE FROM ops.matter_frames f USING unnest(firms, matters, oldest_kept) AS k (firm, matter, oldest) WHERE f.firm_id = k.firm AND f.matter_id = k.matter AND (f.generation < k.oldest);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Everything the ledger holds of one matter: frames, runs and the job. A live
-- claim is fenced by it, as its job is gone. Facts and receipts carry ids only and
-- stay until their own retention: a nudge may still return.
CREATE FUNCTION ops.purge_matter(firm uuid, matter uuid, actor text, reason text)
RETURNS TABLE (frames bigint, runs bigint, jobs bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  born boolean;
BEGIN
  -- the key is held even where there is no job: the run of a claim that was made
  -- between two of these statements would go, and leave its claim behind
  LOOP
    INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status) VALUES (firm, matter, 'idle') ON CONFLICT DO NOTHING;
    born := FOUND;
    PERFORM 1 FROM ops.matter_frame_jobs j WHERE j.firm_id = firm AND j.matter_id = matter FOR UPDATE;
    EXIT WHEN FOUND;
  END LOOP;
  DELETE FROM ops.matter_frame_jobs WHERE firm_id = firm AND (matter_id = matter);
  jobs := CASE WHEN born THEN 0 ELSE 1 END;
  DELETE FROM ops.matter_frames WHERE firm_id = firm AND (matter_id = matter);
  GET DIAGNOSTICS frames = ROW_COUNT;
  DELETE FROM ops.matter_frame_runs WHERE firm_id = firm AND (matter_id = matter);
  GET DIAGNOSTICS runs = ROW_COUNT;
  IF jobs + frames + runs > 0 THEN
    PERFORM ops.audit(actor, 'matter.purge', firm || '/' || matter, reason,
      jsonb_build_object('frames', frames, 'runs', runs));
  END IF;
  RETURN NEXT;
END $$;

-- Of everything above, too: nobody calls what deploy/roles.sql does not name.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ops FROM PUBLIC;
