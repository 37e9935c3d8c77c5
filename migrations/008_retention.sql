-- Retention: the only way out for a row. Small batches, never the current frame,
-- its run, a fact that is not done, or a receipt whose fact is still here.

CREATE FUNCTION ops.count_taken(kind text, n bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE ops.retention_counters SET taken = taken + n WHERE what = kind AND n > 0
$$;

-- Deletes at most batch rows of one kind ('outbox', 'receipts', 'runs') that are
-- done and older than older; returns how many went.
CREATE FUNCTION ops.prune(kind text, older interval, batch integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  horizon timestamptz := clock_timestamp() - older;
  n bigint;
  landed bigint;
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
    -- fact looks at the younger ones only
    DELETE FROM ops.domain_event_outbox WHERE event_id IN (
      SELECT o.event_id FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r ON r.event_id = o.event_id
       WHERE o.recorded_at < horizon AND r.decided_at < clock_timestamp() - least(older, interval '1 hour')
         AND (o.published_at IS NOT NULL OR (SELECT publishing FROM ops.ledger) = 'none')
         AND NOT EXISTS (SELECT 1 FROM ops.outbox_undecided u WHERE u.seq = o.seq)
       LIMIT batch);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM ops.count_taken('facts', n);
  WHEN 'receipts' THEN
    DELETE FROM ops.trigger_receipts WHERE event_id IN (
      SELECT r.event_id FROM ops.trigger_receipts r
       WHERE r.decided_at < horizon AND NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = r.event_id)
       LIMIT batch);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM ops.count_taken('receipts', n);
  WHEN 'runs' THEN
    WITH gone AS (
      DELETE FROM ops.matter_frame_runs WHERE run_id IN (
        SELECT r.run_id FROM ops.matter_frame_runs r
         WHERE r.started_at < horizon AND r.outcome <> 'running'
           AND NOT EXISTS (SELECT 1 FROM ops.matter_frames f WHERE f.run_id = r.run_id)
         LIMIT batch)
      RETURNING outcome)
    SELECT count(*), count(*) FILTER (WHERE outcome = 'landed') INTO n, landed FROM gone;
    PERFORM ops.count_taken('runs', n);
    PERFORM ops.count_taken('landed_runs', landed);
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('cannot prune %L: use outbox, receipts or runs', kind);
  END CASE;
  RETURN n;
END $$;

-- Keeps the newest keep frames of each matter; the current one is the newest.
CREATE FUNCTION ops.prune_frames(firms uuid[], matters uuid[], keep integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  IF keep < 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'keep at least 1 frame a matter';
  END IF;
  DELETE FROM ops.matter_frames f
   USING (SELECT u.firm, u.matter,
                 (SELECT g.generation FROM ops.matter_frames g WHERE g.firm_id = u.firm AND g.matter_id = u.matter
                   ORDER BY g.generation DESC OFFSET keep - 1 LIMIT 1) AS oldest_kept
            FROM unnest(firms, matters) AS u (firm, matter)) k
   WHERE f.firm_id = k.firm AND f.matter_id = k.matter AND f.generation < k.oldest_kept;
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM ops.count_taken('frames', n);
  RETURN n;
END $$;

-- Everything the ledger holds of one matter: frames, runs and the job. A live
-- claim is fenced by it, as its job is gone. Facts and receipts carry ids only and
-- stay until their own retention: a nudge may still return.
CREATE FUNCTION ops.purge_matter(firm uuid, matter uuid, actor text, reason text)
RETURNS TABLE (frames bigint, runs bigint, jobs bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  landed bigint;
BEGIN
  PERFORM 1 FROM ops.matter_frame_jobs j WHERE j.firm_id = firm AND j.matter_id = matter FOR UPDATE;
  DELETE FROM ops.matter_frame_jobs j WHERE j.firm_id = firm AND j.matter_id = matter;
  GET DIAGNOSTICS jobs = ROW_COUNT;
  DELETE FROM ops.matter_frames f WHERE f.firm_id = firm AND f.matter_id = matter;
  GET DIAGNOSTICS frames = ROW_COUNT;
  WITH gone AS (DELETE FROM ops.matter_frame_runs r WHERE r.firm_id = firm AND r.matter_id = matter RETURNING r.outcome)
  SELECT count(*), count(*) FILTER (WHERE outcome = 'landed') INTO runs, landed FROM gone;
  PERFORM ops.count_taken('frames', frames);
  PERFORM ops.count_taken('runs', runs);
  PERFORM ops.count_taken('landed_runs', landed);
  IF jobs + frames + runs > 0 THEN
    PERFORM ops.audit(actor, 'matter.purge', firm || '/' || matter, reason,
      jsonb_build_object('frames', frames, 'runs', runs));
  END IF;
  RETURN NEXT;
END $$;

REVOKE ALL ON FUNCTION ops.prune(text, interval, integer), ops.prune_frames(uuid[], uuid[], integer),
  ops.purge_matter(uuid, uuid, text, text) FROM PUBLIC;
