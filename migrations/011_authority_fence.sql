-- Enforcement. A writer is admitted under a shared advisory lock A, and its commit is
-- judged under a shared advisory lock B, by deferred triggers that fire even for
-- session_replication_role = replica. The row of the fence is read and never locked:
-- a row lock would starve whoever closes, and leaves a multixact for each write. All
-- locks end with their transaction, so that they survive a pooler.

CREATE FUNCTION ops.fence_key(lock text, scope text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.hashtextextended('ops.fence.' || lock || ':' || scope, 0);

-- The role that the session acts for: what SET ROLE said, or else the login. Inside a
-- function with SECURITY DEFINER, current_user would be its owner.
CREATE FUNCTION ops.acting_role() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN current_setting('role') = 'none' THEN session_user::text ELSE current_setting('role') END;

-- How long those who have to wait should: what crossings take here, or what was
-- predicted of the first, less what this one has taken. Every refusal asks it.
CREATE FUNCTION ops.fence_retry_after(in_scope text) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(interval '10 milliseconds', least(f.closing_deadline - clock_timestamp(),
    coalesce((SELECT avg(x.measured_pause) FROM (SELECT x.measured_pause FROM ops.write_fence_changes x WHERE x.outcome = 'advanced' AND x.measured_pause IS NOT NULL ORDER BY x.advanced_at DESC LIMIT 16) x),
             c.predicted_pause, interval '100 milliseconds') - coalesce(clock_timestamp() - c.closed_at, interval '0')))
    FROM (SELECT) here LEFT JOIN ops.write_fences f ON f.scope = in_scope AND f.state <> 'open' AND isfinite(f.closing_deadline)
    LEFT JOIN ops.write_fence_changes c ON c.change_id = f.change_id
$$;

-- One way to say no. The name is the constraint that is reported; DETAIL is JSON for
-- programs: where authority is now, and when to come back.
--   RF403 another role, RF409 another epoch or writer, RF410 a retired writer,
--   RF412 an isolation level under which old rows would pass, RF503 closing: try again
CREATE FUNCTION ops.fence_denied(code text, name text, in_scope text, message text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  where_now jsonb;
BEGIN
  SELECT jsonb_build_object('scope', f.scope, 'epoch', f.epoch, 'writer', f.writer, 'state', f.state, 'endpoint', w.endpoint,
           'retry_after_ms', CASE WHEN code = 'RF503' THEN ceil(extract(epoch FROM ops.fence_retry_after(f.scope)) * 1000) END)
    INTO where_now
    FROM ops.write_fences f JOIN ops.writers w ON w.name = f.writer WHERE f.scope = in_scope;
  RAISE EXCEPTION USING ERRCODE = code, SCHEMA = 'ops', TABLE = 'write_fences', CONSTRAINT = name, MESSAGE = message,
    DETAIL = coalesce(where_now, jsonb_build_object('scope', in_scope))::text;
END $$;

-- The judgement of both ends. closing_too: what was admitted before the closing may
-- still commit, new work may not be admitted.
CREATE FUNCTION ops.fence_judge(in_scope text, in_writer text, in_epoch bigint, closing_too boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
  me text := ops.acting_role();
BEGIN
  SELECT x.epoch, x.writer, x.state, w.kind, w.status, w.database_roles INTO f
    FROM ops.write_fences x JOIN ops.writers w ON w.name = x.writer WHERE x.scope = in_scope;
  IF NOT FOUND THEN
    -- nobody has fenced it: it is the rail's
    SELECT NULL::bigint AS epoch, w.name AS writer, 'open' AS state, w.kind, w.status, w.database_roles INTO f FROM ops.writers w WHERE w.kind = 'rail';
  END IF;
  IF f.writer IS DISTINCT FROM coalesce(in_writer, f.writer) THEN
    IF EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = in_writer AND w.status = 'retired') THEN
      PERFORM ops.fence_denied('RF410', 'write_fence_retired', in_scope, format('writer %s is retired: %s is written by %s', in_writer, in_scope, f.writer));
    END IF;
    PERFORM ops.fence_denied('RF409', 'write_fence_writer', in_scope, format('%s is written by %s, not by %s', in_scope, f.writer, in_writer));
  END IF;
  IF f.epoch IS NOT NULL AND f.epoch <> in_epoch THEN
    PERFORM ops.fence_denied('RF409', 'write_fence_epoch', in_scope, format('%s is at epoch %s, not %s', in_scope, f.epoch, in_epoch));
  END IF;
  IF f.state = 'sealed' OR f.state = 'closing' AND NOT closing_too THEN
    PERFORM ops.fence_denied('RF503', 'write_fence_closed', in_scope, format('%s is %s: try again', in_scope, f.state));
  END IF;
  IF f.epoch IS NOT NULL AND me <> ALL (f.database_roles) THEN
    PERFORM ops.fence_denied('RF403', 'write_fence_role', in_scope, format('role %s does not write for %s, which has authority over %s', me, f.writer, in_scope));
  END IF;
  RETURN coalesce(f.epoch, 1);
END $$;

-- Admission, a writer's first statement: the epoch under which it may write until its
-- commit. epoch null asks for whatever is current. It refuses before it waits, and
-- looks again once it holds the lock, as it may have waited for a drain.
CREATE FUNCTION ops.admit(scope text, writer text, epoch bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  admitted bigint;
BEGIN
  PERFORM ops.fence_judge(scope, writer, epoch, false);
  PERFORM pg_advisory_xact_lock_shared(ops.fence_key('a', scope));
  admitted := ops.fence_judge(scope, writer, epoch, false);
  PERFORM set_config('rail.admitted', concat_ws(' ', nullif(current_setting('rail.admitted', true), ''), scope || '=' || admitted), true);
  RETURN admitted;
END $$;

CREATE FUNCTION ops.admit_matter(matter uuid, writer text, epoch bigint DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT ops.admit(ops.fence_scope(ops.matter_bucket($1)), $2, $3)
$$;

-- What this transaction was admitted under, null where it never asked. Only a hint,
-- and only against whoever set it: the fence itself is what is read at the commit.
CREATE FUNCTION ops.admitted_epoch(scope text) RETURNS bigint
LANGUAGE sql STABLE
RETURN substring(' ' || current_setting('rail.admitted', true) || ' ' FROM ' ' || scope || '=([0-9]+) ')::bigint;

-- The commit. Whoever seals waits for lock B, so that a commit which was judged here is
-- seen by the seal, or comes after it and is refused.
CREATE FUNCTION ops.fence_commit(in_scope text, in_writer text, in_epoch bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM ops.fence_reads_fresh(in_scope);
  PERFORM pg_advisory_xact_lock_shared(ops.fence_key('b', in_scope));
  PERFORM ops.fence_judge(in_scope, in_writer, in_epoch, true);
END $$;

-- Under REPEATABLE READ the fence would be read as it was when the transaction began.
CREATE FUNCTION ops.fence_reads_fresh(in_scope text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM ops.fence_denied('RF412', 'write_fence_isolation', in_scope,
      format('what a fence judges needs READ COMMITTED, not %s', upper(current_setting('transaction_isolation'))));
  END IF;
END $$;

-- An imported row is a copy of what the old writer decided: it may come while that
-- writer has authority, and after the seal up to the final sequence, from its importer.
CREATE FUNCTION ops.fence_commit_import(in_scope text, in_epoch bigint, in_sequence bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
BEGIN
  PERFORM ops.fence_reads_fresh(in_scope);
  PERFORM pg_advisory_xact_lock_shared(ops.fence_key('b', in_scope));
  SELECT x.epoch, x.writer, x.state, x.final_sequence, w.kind, w.importer_role INTO f
    FROM ops.write_fences x JOIN ops.writers w ON w.name = x.writer WHERE x.scope = in_scope;
  IF NOT FOUND OR f.kind = 'rail' THEN
    PERFORM ops.fence_denied('RF409', 'write_fence_import', in_scope, format('nothing is imported into %s: the rail writes it', in_scope));
  END IF;
  IF f.epoch IS DISTINCT FROM in_epoch THEN
    PERFORM ops.fence_denied('RF409', 'write_fence_epoch', in_scope, format('%s is at epoch %s, not %s', in_scope, f.epoch, in_epoch));
  END IF;
  IF f.state = 'sealed' AND in_sequence > f.final_sequence THEN
    PERFORM ops.fence_denied('RF409', 'write_fence_import', in_scope, format('sequence %s lies beyond the final one, %s', in_sequence, f.final_sequence));
  END IF;
  IF ops.acting_role() IS DISTINCT FROM f.importer_role THEN
    PERFORM ops.fence_denied('RF403', 'write_fence_role', in_scope, format('role %s is not the importer of writer %s', ops.acting_role(), f.writer));
  END IF;
END $$;

-- The body of a trigger that judges a row's commit: fence_commit, with the usual answer
-- found in place. A call of a function costs more than all that it does here, and each
-- write of a fenced table pays. Whatever is not plainly right goes to fence_commit,
-- which says why.
CREATE FUNCTION ops.fence_judging(scope_of text, writer_of text, epoch_of text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN format($f$
    s := %s;
    e := %s;
    IF current_setting('transaction_isolation') = 'read committed' AND pg_advisory_xact_lock_shared(ops.fence_key('b', s)) IS NOT NULL THEN
      PERFORM 1 FROM ops.write_fences f JOIN ops.writers w ON w.name = f.writer
        WHERE f.scope = s AND f.writer = %s AND f.state <> 'sealed' AND (e IS NULL OR f.epoch = e) AND ops.acting_role() = ANY (w.database_roles);
    END IF;
    IF NOT FOUND THEN
      PERFORM ops.fence_commit(s, %3$s, e);
    END IF;$f$, scope_of, epoch_of, writer_of);

-- Makes such a trigger function. Written out for its table, because a column whose name
-- is not known would cost a plan at each row.
CREATE FUNCTION ops.fence_tail(tail name, body text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION ops.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$'
    ' DECLARE s text; e bigint; BEGIN %s RETURN NULL; END $f$', tail, body);
  EXECUTE format('REVOKE ALL ON FUNCTION ops.%I() FROM PUBLIC', tail);
END $$;

-- What the rail commits while the old writer might come back is noted for it, in the
-- transaction that commits it.
CREATE FUNCTION ops.frames_for_the_old_writer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO ops.compatibility_log (firm_id, matter_id, generation, epoch, digest)
  SELECT NEW.firm_id, NEW.matter_id, NEW.generation, NEW.authority_epoch, NEW.digest
   WHERE EXISTS (SELECT 1 FROM ops.write_fence_changes c
                  WHERE c.scope = ops.fence_scope(ops.matter_bucket(NEW.matter_id)) AND c.phase = 'advanced' AND c.window_ends_at > clock_timestamp())
  -- a matter that was purged numbers its frames anew
  ON CONFLICT ON CONSTRAINT compatibility_one_a_frame DO UPDATE
    SET epoch = EXCLUDED.epoch, digest = EXCLUDED.digest, committed_at = EXCLUDED.committed_at, exported_at = NULL;
  RETURN NULL;
END $$;

-- The rail's own tables are guarded with the first fence, and free again with the last;
-- so are the indexes by which a whole bucket is looked at, which cost a landing time. On
-- a large ledger its owner makes them CONCURRENTLY beforehand: they hold writers up.
CREATE FUNCTION ops.fence_install() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(ops.fence_key('install', 'all'));
  IF EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'ops.matter_frames'::regclass AND tgname = 'write_fence') THEN
    RETURN;
  END IF;
  PERFORM ops.fence_tail('fence_tail_frames', format(
    'IF NEW.source = ''import'' THEN PERFORM ops.fence_commit_import(ops.fence_scope(ops.matter_bucket(NEW.matter_id)), NEW.authority_epoch, NEW.source_sequence); ELSE %s END IF;',
    ops.fence_judging('ops.fence_scope(ops.matter_bucket(NEW.matter_id))', quote_literal('rail'), 'NEW.authority_epoch')));
  -- an imported intent is the old writer's, and its epoch that of the import
  PERFORM ops.fence_tail('fence_tail_intents', format(
    'IF NEW.imported_from IS NOT NULL AND (TG_OP = ''INSERT'' OR NEW.epoch = OLD.epoch) THEN PERFORM ops.fence_commit_import(ops.fence_scope(NEW.bucket), NEW.epoch, NULL); ELSE %s END IF;',
    ops.fence_judging('ops.fence_scope(NEW.bucket)', 'NEW.writer', 'NEW.epoch')));
  CREATE CONSTRAINT TRIGGER write_fence AFTER INSERT ON ops.matter_frames
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ops.fence_tail_frames();
  ALTER TABLE ops.matter_frames ENABLE ALWAYS TRIGGER write_fence;
  CREATE TRIGGER write_fence_compatibility AFTER INSERT ON ops.matter_frames
    FOR EACH ROW WHEN (NEW.source = 'rail') EXECUTE FUNCTION ops.frames_for_the_old_writer();
  CREATE CONSTRAINT TRIGGER write_fence AFTER INSERT OR UPDATE ON ops.write_intents
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ops.fence_tail_intents();
  ALTER TABLE ops.write_intents ENABLE ALWAYS TRIGGER write_fence;
  CREATE INDEX IF NOT EXISTS outbox_landed ON ops.domain_event_outbox (bucket, seq) WHERE event_name = 'brief.landed';
  CREATE INDEX IF NOT EXISTS jobs_of_bucket ON ops.matter_frame_jobs (bucket);
  CREATE INDEX IF NOT EXISTS frames_of_bucket ON ops.matter_frames (ops.matter_bucket(matter_id));
END $$;

CREATE FUNCTION ops.fence_uninstall() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(ops.fence_key('install', 'all'));
  DROP TRIGGER IF EXISTS write_fence ON ops.matter_frames;
  DROP TRIGGER IF EXISTS write_fence_compatibility ON ops.matter_frames;
  DROP TRIGGER IF EXISTS write_fence ON ops.write_intents;
  DROP FUNCTION IF EXISTS ops.fence_tail_frames(), ops.fence_tail_intents();
  DROP INDEX IF EXISTS ops.outbox_landed, ops.jobs_of_bucket, ops.frames_of_bucket;
END $$;

-- A table of an old writer comes under the fence. In two parts, as the trigger must be
-- made by the table's owner, and what it runs by ours.
CREATE FUNCTION ops.fence_guarding(tab regclass, key_column name, scope text, writer text, sequence_column name, epoch_column name, actor text, reason text)
RETURNS name
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tail name := 'fence_tail_' || tab::oid;
  of_new text;
  of_old text;
  wrong name;
BEGIN
  SELECT c INTO wrong FROM unnest(ARRAY[key_column, sequence_column, epoch_column]) AS u (c)
   WHERE c IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM pg_attribute a WHERE a.attrelid = tab AND a.attname = c AND NOT a.attisdropped
        AND a.atttypid = CASE WHEN c = key_column THEN 'uuid'::regtype ELSE 'bigint'::regtype END);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_column', MESSAGE = format('%s has no column %s of type %s', tab, wrong,
      CASE WHEN wrong = key_column THEN 'uuid' ELSE 'bigint' END);
  END IF;
  IF key_column IS NOT NULL AND (SELECT count(*) FROM ops.write_fences f WHERE f.bucket IS NOT NULL) < 64 THEN
    PERFORM ops.authority_refuse('guards_need_fences', 'write_fence_guards', 'a table of matters is guarded once all 64 buckets have a fence',
      'railctl authority configure');
  END IF;
  INSERT INTO ops.write_fence_guards AS g (guarded, key_column, scope, writer, sequence_column, epoch_column)
  VALUES (tab, key_column, scope, writer, sequence_column, epoch_column)
  ON CONFLICT (guarded) DO UPDATE SET key_column = EXCLUDED.key_column, scope = EXCLUDED.scope, writer = EXCLUDED.writer,
    sequence_column = EXCLUDED.sequence_column, epoch_column = EXCLUDED.epoch_column;
  of_new := CASE WHEN key_column IS NULL THEN quote_literal(scope) ELSE format('ops.fence_scope(ops.matter_bucket(NEW.%I))', key_column) END;
  of_old := replace(of_new, '(NEW.', '(OLD.');
  PERFORM ops.fence_tail(tail, format('IF TG_OP <> ''DELETE'' THEN %s END IF; IF TG_OP = ''DELETE'' OR (TG_OP = ''UPDATE'' AND %s IS DISTINCT FROM %s) THEN %s END IF;',
    ops.fence_judging(of_new, quote_literal(writer), CASE WHEN epoch_column IS NULL THEN 'ops.admitted_epoch(s)' ELSE format('coalesce(NEW.%I, ops.admitted_epoch(s))', epoch_column) END),
    of_new, of_old, ops.fence_judging(of_old, quote_literal(writer), 'ops.admitted_epoch(s)')));
  EXECUTE format('GRANT EXECUTE ON FUNCTION ops.%I(), ops.refuse() TO %I', tail, ops.acting_role());
  PERFORM ops.audit(actor, 'authority.guard', tab::text, reason, jsonb_build_object('writer', writer, 'key', key_column, 'scope', scope, 'sequence', sequence_column));
  RETURN tail;
END $$;

-- What the owner of these functions still has to be granted, to read of a guarded table
-- whose rows they are, where the decisions end, and what ties them to others; null where
-- that is nothing.
CREATE FUNCTION ops.guard_lacks(tab regclass, key_column name, sequence_column name) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  place name := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab);
  unread text;
BEGIN
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO unread FROM pg_attribute a
   WHERE a.attrelid = tab AND NOT has_column_privilege(current_user, tab, a.attnum, 'SELECT')
     AND (a.attname IN (key_column, sequence_column) OR key_column IS NOT NULL AND EXISTS (
       SELECT 1 FROM pg_constraint k WHERE k.contype = 'f' AND (k.conrelid = tab AND a.attnum = ANY (k.conkey) OR k.confrelid = tab AND a.attnum = ANY (k.confkey))));
  RETURN CASE WHEN NOT has_schema_privilege(current_user, place, 'USAGE') THEN format('GRANT USAGE ON SCHEMA %I TO %I', place, current_user)
              WHEN unread IS NOT NULL THEN format('GRANT SELECT (%s) ON %s TO %I', unread, tab, current_user) END;
END $$;

-- Run by the owner of the table, whose right it is.
CREATE FUNCTION ops.guard_table(tab regclass, key_column name, scope text, writer text, sequence_column name, epoch_column name, actor text, reason text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tail name := ops.fence_guarding(tab, key_column, scope, writer, sequence_column, epoch_column, actor, reason);
  missing text := ops.guard_lacks(tab, key_column, sequence_column);
BEGIN
  IF missing LIKE 'GRANT USAGE%' THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('the ledger cannot read %s: the schema is closed to it', tab), HINT = missing;
  ELSIF missing IS NOT NULL THEN
    EXECUTE missing;
  END IF;
  EXECUTE format('DROP TRIGGER IF EXISTS write_fence ON %s', tab);
  EXECUTE format('DROP TRIGGER IF EXISTS write_fence_truncate ON %s', tab);
  EXECUTE format('CREATE CONSTRAINT TRIGGER write_fence AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ops.%I()', tab, tail);
  EXECUTE format('CREATE TRIGGER write_fence_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse(''write_fence_truncate'', ''a fenced table is emptied row by row'')', tab);
  EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER write_fence, ENABLE ALWAYS TRIGGER write_fence_truncate', tab);
END $$;

CREATE FUNCTION ops.fence_unguarding(tab regclass, actor text, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  g ops.write_fence_guards;
BEGIN
  DELETE FROM ops.write_fence_guards WHERE guarded = tab RETURNING * INTO g;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT 1 FROM ops.writers w WHERE w.name = g.writer AND w.status = 'active') THEN
    PERFORM ops.authority_refuse('guards_stay', 'write_fence_guards', format('%s stays guarded while writer %s is active', tab, g.writer), 'retire the writer first');
  END IF;
  EXECUTE format('DROP FUNCTION IF EXISTS ops.%I()', 'fence_tail_' || tab::oid);
  PERFORM ops.audit(actor, 'authority.unguard', tab::text, reason);
END $$;

CREATE FUNCTION ops.unguard_table(tab regclass, actor text, reason text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('DROP TRIGGER IF EXISTS write_fence ON %s', tab);
  EXECUTE format('DROP TRIGGER IF EXISTS write_fence_truncate ON %s', tab);
  PERFORM ops.fence_unguarding(tab, actor, reason);
END $$;

-- 2. What the ledger asks.

CREATE OR REPLACE FUNCTION ops.buckets_elsewhere() RETURNS smallint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT f.bucket FROM ops.write_fences f JOIN ops.writers w ON w.name = f.writer
                WHERE f.bucket IS NOT NULL AND (f.state <> 'open' OR w.kind <> 'rail'));
END $$;

CREATE OR REPLACE FUNCTION ops.buckets_urgent() RETURNS smallint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT f.bucket FROM ops.write_fences f WHERE f.bucket IS NOT NULL AND f.state <> 'open');
END $$;

CREATE OR REPLACE FUNCTION ops.authority_epoch(bucket smallint) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT f.epoch FROM ops.write_fences f WHERE f.bucket = authority_epoch.bucket);
END $$;

-- A claim is a ticket of its epoch: it may land until the scope is sealed. Lock A is
-- for the drain, which waits for landings under way; whoever finds the scope closing
-- does not take it, as it was not admitted since.
CREATE OR REPLACE FUNCTION ops.fence_check(bucket smallint, epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
BEGIN
  SELECT x.scope, x.epoch, x.state, w.kind INTO f
    FROM ops.write_fences x JOIN ops.writers w ON w.name = x.writer WHERE x.bucket = fence_check.bucket;
  IF NOT FOUND THEN
    RETURN true;
  END IF;
  IF f.state = 'open' THEN
    PERFORM pg_advisory_xact_lock_shared(ops.fence_key('a', f.scope));
    SELECT x.scope, x.epoch, x.state, w.kind INTO f
      FROM ops.write_fences x JOIN ops.writers w ON w.name = x.writer WHERE x.bucket = fence_check.bucket;
  END IF;
  RETURN f.epoch = fence_check.epoch AND f.state <> 'sealed' AND f.kind = 'rail';
END $$;
