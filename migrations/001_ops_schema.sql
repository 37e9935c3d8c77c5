-- The words that every later file uses: the bucket of a matter, the write
-- fence's seam, the ledger's own row, and the audit log.

-- The same function as rail.Bucket in Go; shared vectors hold the two together.
CREATE FUNCTION ops.matter_bucket(id uuid) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (pg_catalog.get_byte(pg_catalog.sha256(pg_catalog.uuid_send(id)), 0) & 63)::smallint;

-- The firm whose rows a session of the application may see; the policies of
-- deploy/roles.sql ask it. Nobody is asked for where rail.firm_id is not set, or
-- empty as a SET LOCAL leaves it behind.
CREATE FUNCTION ops.session_firm() RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  firm text := nullif(current_setting('rail.firm_id', true), '');
BEGIN
  IF firm !~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('rail.firm_id is %L and not a UUID', left(firm, 50)),
      HINT = 'in each transaction that reads: SET LOCAL rail.firm_id = ''UUID of the firm''';
  END IF;
  RETURN firm::uuid;
END $$;

-- What the ledger asks of a write fence, and its answers while there is none: the rail
-- writes everywhere. The claim asks once a statement which buckets are not the rail's,
-- or are closed, and writes the epoch of the bucket to the row; the landing asks
-- whether that epoch may still write. So the ledger need not know who else may.
CREATE FUNCTION ops.buckets_elsewhere() RETURNS smallint[]
LANGUAGE sql STABLE PARALLEL SAFE
RETURN '{}'::smallint[];

-- The relay asks once a reading which buckets somebody waits for.
CREATE FUNCTION ops.buckets_urgent() RETURNS smallint[]
LANGUAGE sql STABLE PARALLEL SAFE
RETURN '{}'::smallint[];

CREATE FUNCTION ops.scope_writer_is_rail(bucket smallint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN bucket <> ALL (ops.buckets_elsewhere());

-- Null where the bucket has no fence.
CREATE FUNCTION ops.authority_epoch(bucket smallint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN NULL::bigint;

CREATE FUNCTION ops.fence_check(bucket smallint, epoch bigint) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
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

-- Some writes belong to one function: rows go only through retention, and what went is
-- counted by the tables' own triggers. A setting would be simpler, but any session
-- could set it. So the call stack must read: this statement, of that function. Its
-- first three lines are ours, and the second teaches the words that the server, in its
-- own language, puts around a statement; what follows the third must be one of
-- ops.own_statements() to the letter, and then the line of its function. Text that a
-- client chooses can stand elsewhere (a comment, a portal's name, a parameter that is
-- shown behind the stack), but not there: whoever writes a statement that begins as
-- ours does cannot go on with a quotation mark, as each of ours ends with ')'; and a
-- name that is not plain lower case is shown in quotation marks, so none but the
-- function itself fills its line without one (those functions pin
-- quote_all_identifiers, which would put marks around every name). Asked for each row too where
-- a trigger is at work: a cascade that a foreign key starts runs inside the statement that was
-- asked about already. Elsewhere it is not, as asking takes ten times as long as the delete.
CREATE FUNCTION ops.refuse_to_others() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stack text;
  around text[];
  opening text;
  caller text;
  place integer;
BEGIN
  EXECUTE 'SELECT ops.call_stack()' INTO stack;
  around := string_to_array(split_part(stack, E'\n', 2), 'SELECT ops.call_stack()');
  stack := substr(stack, length(split_part(stack, E'\n', 1)) + length(split_part(stack, E'\n', 2)) + length(split_part(stack, E'\n', 3)) + 4);
  FOR opening, caller IN SELECT around[1] || o.statement || around[2] || E'\n', o.caller FROM ops.own_statements() o LOOP
    CONTINUE WHEN TG_OP = 'TRUNCATE' OR NOT starts_with(stack, opening);
    stack := split_part(substr(stack, length(opening) + 1), E'\n', 1);
    place := strpos(stack, caller);
    EXIT WHEN place = 0 OR strpos(stack, '"') > 0 OR substr(stack, place - 1, 1) ~ '[a-z0-9_.]';
    RETURN CASE WHEN TG_LEVEL = 'ROW' THEN OLD END;
  END LOOP;
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
    CONSTRAINT ledger_change_has_a_year CHECK (changed_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00')
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

-- An instant that a program cannot read, or not write as JSON, breaks every list that
-- it is part of: here and in each table after, it has a year of four digits.
CREATE TABLE ops.audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT audit_has_a_year CHECK (at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
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
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('retention_counters_count_what_leaves');
CREATE TRIGGER retention_counters_stay BEFORE DELETE OR TRUNCATE ON ops.retention_counters
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('retention_counters_stay', 'the tables count what retention takes from them');

-- For tables of this schema only: a trigger on another one has nothing to count.
CREATE FUNCTION ops.count_what_left() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
  UPDATE ops.retention_counters SET taken = taken + g.n FROM (SELECT count(*) AS n FROM gone) g WHERE what = TG_ARGV[0] AND TG_TABLE_SCHEMA = 'ops' AND (g.n > 0);
  RETURN NULL;
END $$;
