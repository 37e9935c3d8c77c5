-- The words that every later file uses: the bucket of a matter, the write
-- fence's seam, the ledger's own row, and the audit log.

-- The same function as rail.Bucket in Go; shared vectors hold the two together.
CREATE FUNCTION ops.matter_bucket(id uuid) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (pg_catalog.get_byte(pg_catalog.sha256(pg_catalog.uuid_send(id)), 0) & 63)::smallint;

-- True until a write fence exists: the claim asks it, so that the ledger need not
-- know who else may write.
CREATE FUNCTION ops.scope_writer_is_rail(bucket smallint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN true;

-- The timeline of the server that answers. pg_control_checkpoint() lags behind a
-- promotion until the first checkpoint; the name of the current WAL file does not.
CREATE FUNCTION ops.current_timeline() RETURNS integer
LANGUAGE sql STABLE
RETURN ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::integer;

-- One refusal for everything that may never happen; the first argument is the
-- name under which it is refused, the second says what to do instead.
CREATE FUNCTION ops.refuse() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
    CONSTRAINT = TG_ARGV[0], MESSAGE = format('%s of %I.%I is refused (%s)', lower(TG_OP), TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]),
    HINT = TG_ARGV[1];
END $$;

-- The call stack of whoever asks, innermost first, this function's own line included.
CREATE FUNCTION ops.call_stack() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stack text;
BEGIN
  GET DIAGNOSTICS stack = PG_CONTEXT;
  RETURN stack;
END $$;

-- Rows go only through the functions of retention. A setting would be simpler, but
-- any session could set it. So the call stack must read: this statement, of that
-- function. Its first three lines are ours and teach the words that the server, in
-- its own language, puts around a statement and a function; what follows them must
-- be one of ops.retention_statements() and its caller to the letter. Text that a
-- client chooses can stand elsewhere (a comment, a portal's name, a parameter that
-- is shown behind the stack), but not there: whoever writes a DELETE that begins as
-- ours does cannot go on with a quotation mark, as each of ours ends with ')'.
CREATE FUNCTION ops.refuse_outside_retention() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stack text;
  around_statement text[];
  before_caller text;
BEGIN
  EXECUTE 'SELECT ops.call_stack()' INTO stack;
  around_statement := string_to_array(split_part(stack, E'\n', 2), 'SELECT ops.call_stack()');
  before_caller := split_part(split_part(stack, E'\n', 3), 'ops.refuse_outside_retention()', 1);
  PERFORM 1 FROM ops.retention_statements() r
    WHERE TG_OP = 'DELETE' AND starts_with(substr(stack, length(split_part(stack, E'\n', 1) || split_part(stack, E'\n', 2) || split_part(stack, E'\n', 3)) + 4),
      around_statement[1] || r.statement || around_statement[2] || E'\n' || before_caller || r.caller);
  IF FOUND THEN
    RETURN NULL;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
    CONSTRAINT = TG_ARGV[0], MESSAGE = format('%s of %I.%I is refused (%s)', lower(TG_OP), TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]),
    HINT = 'rows leave only through ops.prune, ops.prune_frames and ops.purge_matter';
END $$;

-- epoch counts rewinds of the ledger (a restore, a lossy failover); it has nothing
-- to do with authority_epoch. publishing says whether a fact must also have been
-- sent on before retention may take it.
CREATE TABLE ops.ledger (
  one boolean PRIMARY KEY DEFAULT true CONSTRAINT ledger_has_one_row CHECK (one),
  epoch bigint NOT NULL DEFAULT 1 CONSTRAINT ledger_epoch_positive CHECK (epoch >= 1),
  system_identifier bigint NOT NULL,
  timeline integer NOT NULL,
  publishing text NOT NULL DEFAULT 'none' CONSTRAINT ledger_publishing CHECK (publishing IN ('none', 'required')),
  canary_asked_at timestamptz NOT NULL DEFAULT '-infinity',
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO ops.ledger (system_identifier, timeline)
SELECT system_identifier, ops.current_timeline() FROM pg_control_system();

CREATE FUNCTION ops.ledger_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.epoch < OLD.epoch THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_epoch_never_decreases',
      MESSAGE = format('ledger epoch may not go from %s back to %s', OLD.epoch, NEW.epoch);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER ledger_guard BEFORE UPDATE ON ops.ledger FOR EACH ROW EXECUTE FUNCTION ops.ledger_guard();
CREATE TRIGGER ledger_stays BEFORE DELETE OR TRUNCATE ON ops.ledger
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('ledger_row_stays', 'the ledger row is never deleted');

CREATE TABLE ops.audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor text NOT NULL CONSTRAINT audit_needs_actor CHECK (actor <> ''),
  action text NOT NULL CONSTRAINT audit_needs_action CHECK (action <> ''),
  target text NOT NULL,
  reason text NOT NULL CONSTRAINT audit_needs_reason CHECK (btrim(reason) <> ''),
  details jsonb
);
CREATE INDEX audit_log_target ON ops.audit_log (target, id);
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ops.audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('audit_log_is_append_only', 'write a new row instead');

CREATE FUNCTION ops.audit(actor text, action text, target text, reason text, details jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO ops.audit_log (actor, action, target, reason, details) VALUES ($1, $2, $3, $4, $5) RETURNING id
$$;

-- What retention took, so that counts stay conserved: landed runs kept + taken
-- equal frames kept + taken. Triggers of the tables count what leaves them; nobody
-- else changes a count.
CREATE TABLE ops.retention_counters (
  what text PRIMARY KEY CONSTRAINT retention_counters_what CHECK (what IN ('frames', 'landed_runs', 'facts', 'receipts', 'runs')),
  taken bigint NOT NULL DEFAULT 0 CONSTRAINT retention_counters_not_negative CHECK (taken >= 0)
);
INSERT INTO ops.retention_counters (what) VALUES ('frames'), ('landed_runs'), ('facts'), ('receipts'), ('runs');
CREATE TRIGGER retention_counters_count_what_leaves BEFORE UPDATE ON ops.retention_counters
  FOR EACH ROW WHEN (pg_trigger_depth() = 0 OR NEW.taken < OLD.taken OR NEW.what <> OLD.what)
  EXECUTE FUNCTION ops.refuse('retention_counters_count_what_leaves', 'the tables count what retention takes from them');
CREATE TRIGGER retention_counters_stay BEFORE DELETE OR TRUNCATE ON ops.retention_counters
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('retention_counters_stay', 'the tables count what retention takes from them');

CREATE FUNCTION ops.count_what_left() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE ops.retention_counters SET taken = taken + g.n FROM (SELECT count(*) AS n FROM gone) g WHERE what = TG_ARGV[0] AND g.n > 0;
  RETURN NULL;
END $$;
