-- Demand, as a function because the trigger and the operator mean the same thing
-- by it, and the operator's verbs, each audited in its own transaction.

-- Demand counts[i] rebuilds of matter i. Keys must be distinct; rows are locked in
-- key order, so that no two callers deadlock. quiets[i] is the settle time.
-- Every instant is read when the row is won (an upsert evaluates SET after it).
CREATE FUNCTION ops.demand(firms uuid[], matters uuid[], counts integer[], priorities smallint[], quiets interval[], max_wait interval)
RETURNS TABLE (firm_id uuid, matter_id uuid, requested_generation bigint, run_status text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  INSERT INTO ops.matter_frame_jobs AS j
    (firm_id, matter_id, run_status, requested_generation, demands_owed, priority, owed_since, queued_at, not_before)
  SELECT w.firm, w.matter, 'queued', w.n, w.n, w.p, w.now, w.now,
         w.now + CASE WHEN w.p = 0 THEN interval '0' ELSE least(w.quiet, max_wait) END
    FROM (SELECT u.firm, u.matter, u.n, u.p, u.quiet, clock_timestamp() AS now
            FROM unnest(firms, matters, counts, priorities, quiets) AS u (firm, matter, n, p, quiet)
           WHERE u.n > 0
           ORDER BY u.firm, u.matter) w
  ON CONFLICT (firm_id, matter_id) DO UPDATE SET
    requested_generation = j.requested_generation + EXCLUDED.requested_generation,
    demands_owed = j.demands_owed + EXCLUDED.demands_owed,
    run_status = CASE WHEN j.run_status = 'idle' OR j.parked_by = 'failures' THEN 'queued' ELSE j.run_status END,
    parked_by = CASE WHEN j.parked_by = 'operator' THEN j.parked_by END,
    parked_reason = CASE WHEN j.parked_by = 'operator' THEN j.parked_reason END,
    rebuild_needed = j.run_status = 'running',
    rebuild_since = CASE WHEN j.run_status = 'running' THEN coalesce(j.rebuild_since, clock_timestamp()) END,
    rebuild_priority = CASE WHEN j.run_status = 'running' THEN least(j.rebuild_priority, EXCLUDED.priority) END,
    owed_since = coalesce(j.owed_since, clock_timestamp()),
    queued_at = CASE WHEN j.run_status = 'idle' OR j.parked_by = 'failures' THEN clock_timestamp() ELSE j.queued_at END,
    not_before = CASE
      WHEN j.run_status = 'idle' THEN clock_timestamp() + (EXCLUDED.not_before - EXCLUDED.queued_at)
      WHEN j.parked_by = 'failures' THEN coalesce(j.not_before, clock_timestamp())
      -- a backoff is never shortened, nor a settled row sent back to settle
      WHEN j.run_status <> 'queued' OR j.attempts > 0 THEN j.not_before
      WHEN EXCLUDED.priority = 0 THEN least(j.not_before, clock_timestamp())
      WHEN j.priority = 0 THEN j.not_before
      ELSE greatest(j.not_before, least(clock_timestamp() + (EXCLUDED.not_before - EXCLUDED.queued_at), j.queued_at + max_wait))
    END,
    -- while a claim is live its own urgency stays; the new demand's waits beside it
    priority = CASE WHEN j.run_status = 'idle' THEN EXCLUDED.priority
                    WHEN j.run_status = 'running' THEN j.priority
                    ELSE least(j.priority, EXCLUDED.priority) END
  RETURNING j.firm_id, j.matter_id, j.requested_generation, j.run_status;
END $$;

CREATE FUNCTION ops.operator_demand(firms uuid[], matters uuid[], priority smallint, actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  SELECT count(*) INTO n FROM ops.demand(firms, matters,
    array_fill(1, ARRAY[cardinality(firms)]), array_fill(operator_demand.priority, ARRAY[cardinality(firms)]),
    array_fill(interval '0', ARRAY[cardinality(firms)]), interval '0');
  PERFORM ops.audit(actor, 'matter.demand', u.firm || '/' || u.matter, reason, jsonb_build_object('priority', operator_demand.priority))
     FROM unnest(firms, matters) AS u (firm, matter);
  RETURN n;
END $$;

-- Park or cancel: stops a queued or running job. Returns the status it had, or
-- null where there is nothing to stop.
CREATE FUNCTION ops.park_matter(firm uuid, matter uuid, action text, actor text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j ops.matter_frame_jobs;
BEGIN
  IF action NOT IN ('park', 'cancel') THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('action %L: use park or cancel', action);
  END IF;
  SELECT * INTO j FROM ops.matter_frame_jobs WHERE firm_id = firm AND matter_id = matter FOR UPDATE;
  IF NOT FOUND OR j.run_status NOT IN ('queued', 'running') THEN
    RETURN NULL;
  END IF;
  UPDATE ops.matter_frame_jobs
     SET run_status = 'parked', parked_by = 'operator', parked_reason = reason,
         run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
         priority = least(j.priority, j.rebuild_priority), rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL,
         queued_at = clock_timestamp()
   WHERE firm_id = firm AND matter_id = matter;
  UPDATE ops.matter_frame_runs
     SET outcome = 'cancelled', finished_at = clock_timestamp(), error_kind = 'cancelled', error_text = left(reason, 500)
   WHERE run_id = j.run_id AND outcome = 'running';
  PERFORM ops.audit(actor, 'matter.' || action, firm || '/' || matter, reason,
    jsonb_build_object('was', j.run_status, 'run_id', j.run_id, 'generation', j.claimed_generation));
  RETURN j.run_status;
END $$;

-- Returns whether the matter was parked.
CREATE FUNCTION ops.unpark_matter(firm uuid, matter uuid, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j ops.matter_frame_jobs;
BEGIN
  SELECT * INTO j FROM ops.matter_frame_jobs WHERE firm_id = firm AND matter_id = matter FOR UPDATE;
  IF NOT FOUND OR j.run_status <> 'parked' THEN
    RETURN false;
  END IF;
  UPDATE ops.matter_frame_jobs
     SET run_status = 'queued', parked_by = NULL, parked_reason = NULL, attempts = 0,
         queued_at = clock_timestamp(), not_before = clock_timestamp()
   WHERE firm_id = firm AND matter_id = matter;
  PERFORM ops.audit(actor, 'matter.unpark', firm || '/' || matter, reason,
    jsonb_build_object('parked_by', j.parked_by, 'parked_reason', left(j.parked_reason, 500), 'attempts', j.attempts));
  RETURN true;
END $$;

-- firm null means every firm. Returns whether anything changed.
CREATE FUNCTION ops.pause_dispatch(firm uuid, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO ops.dispatch_pauses (firm_id, paused_by, reason) VALUES (firm, actor, reason) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM ops.audit(actor, 'dispatch.pause', coalesce(firm::text, 'all'), reason);
  RETURN true;
END $$;

CREATE FUNCTION ops.resume_dispatch(firm uuid, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM ops.dispatch_pauses WHERE firm_id IS NOT DISTINCT FROM firm;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM ops.audit(actor, 'dispatch.resume', coalesce(firm::text, 'all'), reason);
  RETURN true;
END $$;

-- Retention takes no fact until this transaction ends: one that it took between the
-- look at the outbox and the commit would stay undecided without a fact, for ever.
CREATE FUNCTION ops.keep_facts() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_advisory_xact_lock(hashtextextended('ops.keep_facts', 0)) $$;

-- Facts to be judged again under today's rules: they become undecided, and the
-- trigger does the rest. A fact that became demand is left alone.
CREATE FUNCTION ops.redecide(verdict_like text, since timestamptz, firm uuid, actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM ops.keep_facts();
  INSERT INTO ops.outbox_undecided (seq, event_id, recorded_at)
  SELECT o.seq, o.event_id, o.recorded_at
    FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r ON r.event_id = o.event_id
   WHERE o.recorded_at >= since AND r.verdict <> 'demanded' AND r.verdict LIKE verdict_like
     AND (firm IS NULL OR o.firm_id = firm) AND o.event_name NOT IN ('brief.landed', 'brief.parked')
  ON CONFLICT (seq) DO NOTHING;
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM ops.audit(actor, 'outbox.redecide', coalesce(firm::text, 'all'), reason,
    jsonb_build_object('verdict', verdict_like, 'since', since, 'facts', n));
  RETURN n;
END $$;

CREATE FUNCTION ops.set_publishing(wanted text, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE ops.ledger SET publishing = wanted, changed_at = clock_timestamp() WHERE publishing <> wanted;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM ops.audit(actor, 'outbox.publishing', wanted, reason);
  RETURN true;
END $$;

-- After a rewind of the ledger (a restore, a lossy failover): a new epoch, every
-- live claim fenced and handed back, and the facts recorded since then judged
-- again, demand included: a landing that the rewind lost is built again.
CREATE FUNCTION ops.bump_epoch(since timestamptz, actor text, reason text)
RETURNS TABLE (epoch bigint, fenced bigint, facts bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  e bigint;
  n bigint;
  f bigint;
  live record;
BEGIN
  UPDATE ops.ledger SET epoch = epoch + 1, changed_at = clock_timestamp(), timeline = ops.current_timeline(),
         system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
  RETURNING epoch INTO e;
  -- one by one, in the key order in which everybody locks: a statement that waited
  -- for a row would not see the run of a claim that was made meanwhile. Such a claim
  -- is younger than the rewind and stays.
  n := 0;
  FOR live IN SELECT firm_id, matter_id, run_id FROM ops.matter_frame_jobs WHERE run_status = 'running' ORDER BY firm_id, matter_id LOOP
    UPDATE ops.matter_frame_jobs j
       SET run_status = 'queued', run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
           priority = least(j.priority, j.rebuild_priority), rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL,
           queued_at = clock_timestamp(), not_before = clock_timestamp(), attempts = greatest(j.attempts - 1, 0)
     WHERE j.firm_id = live.firm_id AND j.matter_id = live.matter_id AND j.run_id = live.run_id;
    CONTINUE WHEN NOT FOUND;
    n := n + 1;
    UPDATE ops.matter_frame_runs r
       SET outcome = 'fenced', finished_at = clock_timestamp(), error_kind = 'epoch_bump', error_text = 'the ledger epoch was raised'
     WHERE r.run_id = live.run_id AND r.outcome = 'running';
  END LOOP;
  PERFORM ops.keep_facts();
  INSERT INTO ops.outbox_undecided (seq, event_id, recorded_at)
  SELECT o.seq, o.event_id, o.recorded_at FROM ops.domain_event_outbox o
   WHERE o.recorded_at >= since AND o.event_name NOT IN ('brief.landed', 'brief.parked')
  ON CONFLICT (seq) DO NOTHING;
  GET DIAGNOSTICS f = ROW_COUNT;
  PERFORM ops.audit(actor, 'epoch.bump', 'ledger', reason,
    jsonb_build_object('epoch', e, 'fenced', n, 'facts', f, 'since', since));
  RETURN QUERY SELECT e, n, f;
END $$;

REVOKE ALL ON FUNCTION ops.operator_demand(uuid[], uuid[], smallint, text, text), ops.park_matter(uuid, uuid, text, text, text),
  ops.unpark_matter(uuid, uuid, text, text), ops.pause_dispatch(uuid, text, text), ops.resume_dispatch(uuid, text, text),
  ops.redecide(text, timestamptz, uuid, text, text), ops.set_publishing(text, text, text), ops.bump_epoch(timestamptz, text, text)
  FROM PUBLIC;
