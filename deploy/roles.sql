-- The database roles of the rail and every right that they have; this file is the
-- only list of them. Apply it to the rail's own database before the first migration,
-- which makes schema ops, and again after each:
--
--   psql -v ON_ERROR_STOP=1 -f roles.sql     or     railctl roles apply
--
-- Run it as a superuser, or as a role with CREATEROLE that owns the database and
-- whatever is in schema ops already. Once the roles are there, rail_migrator can run
-- it too. It may be run as often as you like, is one transaction, and changes only
-- what differs. It holds no passwords: set them yourself (\password rail_worker), or
-- let pg_hba.conf name another method; without either nobody can log in. Roles belong
-- to the whole server, rights to this database.
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '10s'; -- the first run takes the tables over and waits for them
SET LOCAL client_min_messages = warning;

-- 1. The roles. What can log in can do nothing beyond this list: one that could
-- create roles, or pass by row-level security, would not be bound by it.
DO $$
DECLARE
  r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['rail_owner', 'rail_migrator', 'rail_app', 'rail_relay', 'rail_worker', 'rail_operator', 'rail_readonly'] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r) THEN
      EXECUTE format('CREATE ROLE %I %s NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION', r,
        CASE WHEN r = 'rail_owner' THEN 'NOLOGIN' ELSE 'LOGIN' END);
    END IF;
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r AND (rolsuper OR rolcreaterole OR rolbypassrls OR rolreplication)) THEN
      RAISE EXCEPTION USING ERRCODE = 'invalid_role_specification', MESSAGE = format('role %I exists and may do more than the rail allows', r),
        HINT = format('ALTER ROLE %I NOSUPERUSER NOCREATEROLE NOBYPASSRLS NOREPLICATION', r);
    END IF;
  END LOOP;
END $$;

-- 2. Who is a member of what. Whoever runs this must be able to act for the owner; the
-- migrator acts for it from its login on, so that whatever it makes is the owner's.
-- An operator reads what readonly reads, and sees the sessions of others (doctor); so do
-- the owner's functions, which say who holds a closing up.
DO $$
DECLARE
  m record;
BEGIN
  FOR m IN SELECT * FROM (VALUES ('rail_owner', current_user::text), ('rail_owner', 'rail_migrator'),
      ('rail_readonly', 'rail_operator'), ('pg_monitor', 'rail_operator'), ('pg_read_all_stats', 'rail_owner')) AS v (role, member)
  LOOP
    CONTINUE WHEN pg_has_role(m.member, m.role, 'USAGE');
    BEGIN
      EXECUTE format('GRANT %I TO %I', m.role, m.member);
    EXCEPTION WHEN insufficient_privilege THEN
      IF m.role NOT LIKE 'pg\_%' THEN
        RAISE;
      END IF;
      RAISE WARNING '% is not granted to %: have a superuser do it, or railctl doctor and railctl authority blockers do not say everything', m.role, m.member;
    END;
  END LOOP;
END $$;

-- 3. Settings of their sessions; one that you have set yourself stays. The programs
-- ask for their own at each connect, except through a transaction-mode pooler, which
-- would not keep them.
DO $$
DECLARE
  s record;
BEGIN
  FOR s IN SELECT * FROM (VALUES
      ('rail_migrator', 'role', 'rail_owner'),
      ('rail_migrator', 'lock_timeout', '5s'),
      ('rail_migrator', 'idle_in_transaction_session_timeout', '10min'),
      ('rail_app', 'statement_timeout', '60s'),
      ('rail_app', 'lock_timeout', '10s'),
      ('rail_app', 'idle_in_transaction_session_timeout', '60s'),
      ('rail_relay', 'statement_timeout', '30s'),
      ('rail_relay', 'lock_timeout', '15s'),
      ('rail_relay', 'idle_in_transaction_session_timeout', '10s'),
      ('rail_relay', 'default_transaction_isolation', 'read committed'),
      ('rail_worker', 'statement_timeout', '30s'),
      ('rail_worker', 'lock_timeout', '15s'),
      ('rail_worker', 'idle_in_transaction_session_timeout', '10s'),
      ('rail_worker', 'default_transaction_isolation', 'read committed'),
      ('rail_operator', 'statement_timeout', '60s'),
      ('rail_operator', 'lock_timeout', '10s'),
      ('rail_operator', 'idle_in_transaction_session_timeout', '60s'),
      ('rail_operator', 'default_transaction_isolation', 'read committed'),
      ('rail_readonly', 'statement_timeout', '30s'),
      ('rail_readonly', 'lock_timeout', '5s'),
      ('rail_readonly', 'idle_in_transaction_session_timeout', '60s')) AS v (role, name, value)
  LOOP
    CONTINUE WHEN EXISTS (
      SELECT 1 FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) AS c (entry)
       WHERE d.setrole = s.role::regrole AND d.setdatabase = 0 AND starts_with(c.entry, s.name || '='));
    EXECUTE format('ALTER ROLE %I SET %I = %L', s.role, s.name, s.value);
  END LOOP;
END $$;

-- 4. The schema and all that is in it belong to rail_owner: functions with SECURITY
-- DEFINER run as it, and row-level security does not bind it.
DO $$
DECLARE
  thing text;
BEGIN
  IF to_regnamespace('ops') IS NULL THEN
    EXECUTE 'CREATE SCHEMA ops AUTHORIZATION rail_owner';
  END IF;
  FOR thing IN
    SELECT 'SCHEMA ops' FROM pg_namespace WHERE nspname = 'ops' AND nspowner <> 'rail_owner'::regrole
    UNION ALL
    -- a sequence of a column goes with its table
    SELECT format('TABLE ops.%I', c.relname) FROM pg_class c
     WHERE c.relnamespace = 'ops'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND c.relowner <> 'rail_owner'::regrole
       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
    UNION ALL
    SELECT format('TYPE ops.%I', c.relname) FROM pg_class c
     WHERE c.relnamespace = 'ops'::regnamespace AND c.relkind = 'c' AND c.relowner <> 'rail_owner'::regrole
    UNION ALL
    SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc p
     WHERE p.pronamespace = 'ops'::regnamespace AND p.proowner <> 'rail_owner'::regrole
  LOOP
    EXECUTE format('ALTER %s OWNER TO rail_owner', thing);
  END LOOP;
END $$;

-- 5. A clean slate, invisible to others until the commit: what is not granted below is
-- not granted. It does not touch the rights of roles that are not the rail's.
ALTER DEFAULT PRIVILEGES FOR ROLE rail_owner REVOKE EXECUTE ON ROUTINES FROM PUBLIC;
REVOKE ALL ON SCHEMA ops FROM PUBLIC, rail_app, rail_relay, rail_worker, rail_operator, rail_readonly, rail_migrator;
REVOKE ALL ON ALL TABLES IN SCHEMA ops FROM PUBLIC, rail_app, rail_relay, rail_worker, rail_operator, rail_readonly, rail_migrator;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA ops FROM PUBLIC, rail_app, rail_relay, rail_worker, rail_operator, rail_readonly, rail_migrator;
REVOKE ALL ON ALL ROUTINES IN SCHEMA ops FROM PUBLIC, rail_app, rail_relay, rail_worker, rail_operator, rail_readonly, rail_migrator;
GRANT USAGE ON SCHEMA ops TO rail_app, rail_relay, rail_worker, rail_operator, rail_readonly;

-- 6. The rights. They are about the newest schema: before it is there, none is given.
DO $roles$
BEGIN
  IF to_regprocedure('ops.fence_watches(interval)') IS NULL THEN
    RETURN;
  END IF;

  -- Everybody who writes a row with a bucket needs the function that computes it.
  GRANT EXECUTE ON FUNCTION ops.matter_bucket(uuid) TO rail_app, rail_relay, rail_worker;
  GRANT SELECT ON ops.schema_version TO rail_relay, rail_worker, rail_readonly;

  -- rail_app: the product's own code. It appends facts, and reads what is current of
  -- one firm: that of SET LOCAL rail.firm_id. event_id is for RETURNING and ON CONFLICT.
  GRANT INSERT (event_id, firm_id, matter_id, event_name, occurred_at, traceparent, tracestate, attributes),
    SELECT (event_id) ON ops.domain_event_outbox TO rail_app;
  GRANT SELECT ON ops.matter_frames, ops.current_frames, ops.matter_status TO rail_app;
  GRANT SELECT (firm_id, matter_id, run_status, requested_generation, landed_generation, owed_since) ON ops.matter_frame_jobs TO rail_app;
  GRANT EXECUTE ON FUNCTION ops.session_firm() TO rail_app;
  -- what a person asks for, once, and who decides it; the fence is asked inside
  GRANT EXECUTE ON FUNCTION ops.submit_intent(uuid, uuid, uuid, text, bigint, bytea, bigint), ops.find_intent(uuid), ops.matter_authority(uuid),
    ops.matter_revision(uuid, uuid) TO rail_app, rail_worker;

  -- rail_relay: sends facts on and marks them. It cannot make one, nor change one.
  GRANT SELECT (event_id, seq, firm_id, matter_id, event_name, occurred_at, recorded_at, traceparent, tracestate, bucket, published_at),
    UPDATE (published_at) ON ops.domain_event_outbox TO rail_relay;
  GRANT SELECT, UPDATE (holder, epoch, expires_at) ON ops.outbox_bucket_leases TO rail_relay;
  GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON ops.outbox_relays TO rail_relay;
  GRANT SELECT, INSERT, UPDATE, DELETE ON ops.outbox_failures TO rail_relay;
  GRANT EXECUTE ON FUNCTION ops.bucket_leases_refuse(text, text), ops.require_publishing(text), ops.buckets_urgent() TO rail_relay;

  -- rail_worker: decides facts, claims, lands. It deletes nothing but what passes
  -- through (a decided fact's mark, a frame on its way in); retention has functions.
  GRANT SELECT (event_id, seq, firm_id, matter_id, event_name, occurred_at, recorded_at, traceparent, tracestate, bucket, published_at),
    INSERT (firm_id, matter_id, event_name, traceparent) ON ops.domain_event_outbox TO rail_worker;
  GRANT SELECT, UPDATE (recorded_at), DELETE ON ops.outbox_undecided TO rail_worker; -- the UPDATE is for its row locks: a trigger refuses it
  GRANT SELECT, INSERT, UPDATE (verdict, decided_at, requested_generation) ON ops.trigger_receipts TO rail_worker;
  GRANT SELECT, INSERT, UPDATE ON ops.matter_frame_jobs, ops.matter_frame_runs TO rail_worker;
  GRANT SELECT, INSERT ON ops.matter_frames TO rail_worker;
  GRANT SELECT, INSERT, DELETE ON ops.frame_arrivals TO rail_worker;
  GRANT SELECT, UPDATE (canary_asked_at) ON ops.ledger TO rail_worker;
  GRANT SELECT ON ops.dispatch_pauses, ops.audit_log, ops.retention_counters, ops.outbox_failures TO rail_worker;
  GRANT SELECT, USAGE ON SEQUENCE ops.run_outcome_refusals TO rail_worker;
  GRANT EXECUTE ON FUNCTION ops.scope_writer_is_rail(smallint), ops.buckets_elsewhere(), ops.authority_epoch(smallint),
    ops.fence_check(smallint, bigint), ops.current_timeline(),
    ops.demand(uuid[], uuid[], integer[], smallint[], interval[], interval),
    ops.prune(text, interval, integer), ops.prune_frames(uuid[], uuid[], integer),
    ops.jobs_refuse(text, text), ops.jobs_check_times(ops.matter_frame_jobs), ops.runs_refuse(text, text) TO rail_worker;

  -- The fence's watchdog runs in every daemon; holds, evidence and the canary's notes
  -- are written by them too. What a closing does is the operator's.
  GRANT EXECUTE ON FUNCTION ops.abort_overdue(text) TO rail_relay, rail_worker;
  GRANT EXECUTE ON FUNCTION ops.raise_hold(text, text, jsonb), ops.note_evidence(text, text, text, bigint, bigint, jsonb),
    ops.note_path(text, text, text, boolean, text), ops.watch_path(text, text, text), ops.keep_shadow(uuid, uuid, bigint, jsonb, bytea, text, text, text, text, text),
    ops.fence_retry_after(text), ops.writer_rights(text) TO rail_worker, rail_operator;
  GRANT SELECT ON ops.write_fences, ops.writers, ops.writer_paths TO rail_relay, rail_worker;
  GRANT SELECT ON ops.shadow_frames TO rail_worker;

  -- rail_operator: changes through functions only, each of which writes its audit row.
  GRANT EXECUTE ON FUNCTION ops.operator_demand(uuid[], uuid[], smallint, text, text), ops.park_matter(uuid, uuid, text, text, text),
    ops.unpark_matter(uuid, uuid, text, text), ops.pause_dispatch(uuid, text, text), ops.resume_dispatch(uuid, text, text),
    ops.redecide(text, timestamptz, uuid, text, text), ops.set_publishing(text, text, text), ops.bump_epoch(timestamptz, text, text),
    ops.replay_parked(uuid[], text, text), ops.purge_matter(uuid, uuid, text, text), ops.audit(text, text, text, text, jsonb) TO rail_operator;
  GRANT EXECUTE ON FUNCTION ops.register_writer(text, text, text[], text, text, text, text), ops.configure_fences(text[], text, text, text),
    ops.fence_guarding(regclass, name, text, text, name, name, text, text), ops.guard_lacks(regclass, name, name), ops.guard_table(regclass, name, text, text, name, name, text, text),
    ops.fence_unguarding(regclass, text, text), ops.unguard_table(regclass, text, text),
    ops.plan_change(uuid, text, text, uuid, jsonb, jsonb, text, text), ops.shadow_change(uuid, jsonb, text, text),
    ops.close_scope(uuid, text, text), ops.drain_scope(uuid), ops.seal_scope(uuid), ops.report_change(uuid, bigint, bytea, jsonb, interval),
    ops.advance_scope(uuid, text, text), ops.abort_change(uuid, text, text), ops.abort_overdue(text), ops.complete_change(uuid, text, text),
    ops.retire_change(uuid, text, text), ops.retire_writer(text, text, text), ops.writer_rights(text), ops.remove_authority(text, text),
    ops.close_restored(text, text), ops.open_restored(text, text, bigint, text, text), ops.release_hold(bigint, text, text, text),
    ops.fence_final_sequence(text, text), ops.fence_blockers(text),
    ops.verify_scope(text, text, bigint), ops.scope_heads(text), ops.scope_digest(text), ops.relations_cut(text), ops.cohort_events(text),
    ops.move_unready(text, text) TO rail_operator;
  GRANT EXECUTE ON FUNCTION ops.may_use_new(uuid, text) TO rail_app, rail_worker;
  GRANT EXECUTE ON FUNCTION ops.shadow_summary(text), ops.fence_watches(interval) TO rail_worker, rail_operator, rail_readonly;
  GRANT EXECUTE ON FUNCTION ops.rollback_conditions(uuid, interval, interval) TO rail_readonly; -- an operator is one of them
  -- what is in an imported frame is for whoever builds its shadow
  GRANT EXECUTE ON FUNCTION ops.shadow_todo(text, integer) TO rail_worker;
  GRANT SELECT ON ops.write_fence_changes, ops.write_fence_holds TO rail_worker, rail_relay;

  -- rail_readonly: everything but content, which is frames, what a builder answered
  -- instead of one, and the attributes of facts.
  GRANT SELECT (event_id, seq, firm_id, matter_id, event_name, occurred_at, recorded_at, traceparent, tracestate, bucket, published_at)
    ON ops.domain_event_outbox TO rail_readonly;
  GRANT SELECT (firm_id, matter_id, generation, digest, schema_version, builder_version, authority_epoch, run_id, source, source_sequence, built_at)
    ON ops.matter_frames TO rail_readonly;
  GRANT SELECT (run_id, firm_id, matter_id, generation, attempt, retry_of, worker, builder, started_at, finished_at, outcome, error_kind,
      error_text, error_sha256, demands, model_calls, tokens, cost_usd, traceparent, late_write_at, authority_epoch)
    ON ops.matter_frame_runs TO rail_readonly;
  GRANT SELECT ON ops.matter_frame_jobs, ops.matter_status, ops.dispatch_pauses, ops.ledger, ops.audit_log, ops.retention_counters,
    ops.outbox_undecided, ops.trigger_receipts, ops.outbox_relays, ops.outbox_bucket_leases, ops.outbox_failures,
    ops.schema_checksums TO rail_readonly;
  GRANT SELECT ON ops.write_fences, ops.writers, ops.writer_paths, ops.write_fence_changes, ops.write_fence_reports, ops.write_fence_guards,
    ops.write_fence_holds, ops.write_intents, ops.compatibility_log, ops.fence_evidence TO rail_readonly;
  GRANT SELECT (firm_id, matter_id, source_sequence, bucket, digest, schema_version, builder_version, built_at, difference, rule, compared_at)
    ON ops.shadow_frames TO rail_readonly;
  GRANT SELECT ON SEQUENCE ops.run_outcome_refusals TO rail_readonly;
  GRANT EXECUTE ON FUNCTION ops.matter_bucket(uuid), ops.scope_writer_is_rail(smallint), ops.buckets_elsewhere(), ops.current_timeline(),
    ops.frame_bytes(uuid, uuid, bigint), ops.matter_authority(uuid), ops.matter_revision(uuid, uuid), ops.find_intent(uuid), ops.fence_scope(smallint) TO rail_readonly;
  GRANT EXECUTE ON FUNCTION ops.fence_scope(smallint) TO rail_worker, rail_relay;
END $roles$;

-- 7. Row-level security: who is not named sees no row, whatever it is granted. The
-- firm is asked for once a statement, so that the key's index still serves.
DO $$
DECLARE
  p record;
BEGIN
  FOR p IN SELECT v.*, format('ops.%I', v.tab)::regclass AS rel FROM (VALUES
      ('matter_frames', 'one_firm', 'SELECT TO rail_app USING (firm_id = (SELECT ops.session_firm()))'),
      ('matter_frames', 'every_firm', 'SELECT TO rail_worker, rail_readonly USING (true)'),
      ('matter_frames', 'landings', 'INSERT TO rail_worker WITH CHECK (true)'),
      ('matter_frame_jobs', 'one_firm', 'SELECT TO rail_app USING (firm_id = (SELECT ops.session_firm()))'),
      ('matter_frame_jobs', 'every_firm', 'SELECT TO rail_readonly USING (true)'),
      ('matter_frame_jobs', 'work', 'ALL TO rail_worker USING (true) WITH CHECK (true)')) AS v (tab, name, words)
   WHERE to_regprocedure('ops.fence_watches(interval)') IS NOT NULL
  LOOP
    IF NOT (SELECT relrowsecurity FROM pg_class WHERE oid = p.rel) THEN
      EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p.rel);
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = p.rel AND polname = p.name) THEN
      EXECUTE format('CREATE POLICY %I ON %s FOR %s', p.name, p.rel, p.words);
    END IF;
  END LOOP;
END $$;
COMMIT;
