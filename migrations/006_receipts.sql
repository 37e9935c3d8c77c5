-- Receipts: every fact ends with one, and with a verdict.

CREATE TABLE ops.trigger_receipts (
  event_id uuid PRIMARY KEY,
  verdict text COLLATE "C" NOT NULL
    CONSTRAINT receipts_verdict CHECK (verdict IN ('demanded', 'ignored') OR verdict ~ '^gated:[a-z][a-z0-9_]{0,39}$'),
  decided_at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT receipts_have_a_year CHECK (decided_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00'),
  requested_generation bigint,
  CONSTRAINT receipts_generation_when_demanded CHECK ((verdict = 'demanded') = (requested_generation IS NOT NULL))
);
CREATE INDEX receipts_by_age ON ops.trigger_receipts USING brin (decided_at) WITH (pages_per_range = 32, autosummarize = on);

CREATE FUNCTION ops.receipts_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.event_id <> OLD.event_id OR (OLD.verdict = 'demanded' AND NEW.verdict <> 'demanded') THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'trigger_receipts',
      CONSTRAINT = 'receipts_demanded_is_final', MESSAGE = 'a fact that became demand is not judged away';
  END IF;
  RETURN NEW;
END $$;

-- A receipt is of a fact, and one that says "demanded" of demand that the ledger holds,
-- and that nobody has claimed yet when it is first written: written by hand it would be
-- demand that nobody misses.
CREATE FUNCTION ops.receipts_say_what_is() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  b record;
BEGIN
  SELECT n.event_id, n.requested_generation, o.event_id IS NOT NULL AS is_fact INTO b
    FROM written n
    LEFT JOIN ops.domain_event_outbox o ON o.event_id = n.event_id
    LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = o.firm_id AND j.matter_id = o.matter_id
   WHERE o.event_id IS NULL OR (n.verdict = 'demanded' AND (j.requested_generation >= n.requested_generation
           AND (TG_OP = 'UPDATE' OR n.requested_generation > j.claimed_generation)) IS NOT TRUE)
   LIMIT 1;
  IF FOUND AND NOT b.is_fact THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'trigger_receipts',
      CONSTRAINT = 'receipts_are_of_a_fact', MESSAGE = format('there is no fact %s', b.event_id);
  ELSIF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'trigger_receipts',
      CONSTRAINT = 'receipts_demand_is_in_the_ledger',
      MESSAGE = format('the job of fact %s has no demand of generation %s', b.event_id, b.requested_generation);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER receipts_say_what_is AFTER INSERT ON ops.trigger_receipts
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION ops.receipts_say_what_is();
CREATE TRIGGER receipts_still_say_what_is AFTER UPDATE ON ops.trigger_receipts
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION ops.receipts_say_what_is();
CREATE TRIGGER receipts_guard BEFORE UPDATE ON ops.trigger_receipts FOR EACH ROW EXECUTE FUNCTION ops.receipts_guard();
CREATE TRIGGER receipts_stay BEFORE DELETE OR TRUNCATE ON ops.trigger_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('receipts_stay');
CREATE TRIGGER receipts_stay_each BEFORE DELETE ON ops.trigger_receipts
  FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION ops.refuse_to_others('receipts_stay');
CREATE TRIGGER receipts_count_what_left AFTER DELETE ON ops.trigger_receipts
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.count_what_left('receipts');

-- A fact leaves the undecided in the transaction that judged it only, an older
-- receipt or none: a row deleted by hand would be demand that nobody misses. Who
-- judged it wrote its receipt, or found demand there, which stays as it is and is
-- locked by the attempt to write it.
CREATE FUNCTION ops.undecided_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own xid := pg_current_xact_id()::xid;
BEGIN
  PERFORM 1 FROM gone g JOIN ops.domain_event_outbox o ON o.event_id = g.event_id
   WHERE NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = g.event_id
                       AND (r.xmin = own OR (r.xmax = own AND r.verdict = 'demanded')));
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'outbox_undecided',
      CONSTRAINT = 'undecided_goes_with_its_receipt', MESSAGE = 'a fact stays undecided until the transaction that judges it';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER undecided_guard AFTER DELETE ON ops.outbox_undecided
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.undecided_guard();
CREATE TRIGGER undecided_stay BEFORE UPDATE OR TRUNCATE ON ops.outbox_undecided
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('undecided_stay', 'facts are decided by the trigger');
