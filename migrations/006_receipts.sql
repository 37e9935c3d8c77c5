-- Receipts: every fact ends with one, and with a verdict.

CREATE TABLE ops.trigger_receipts (
  event_id uuid PRIMARY KEY,
  verdict text COLLATE "C" NOT NULL
    CONSTRAINT receipts_verdict CHECK (verdict IN ('demanded', 'ignored') OR verdict ~ '^gated:[a-z][a-z0-9_]{0,39}$'),
  decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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
CREATE TRIGGER receipts_guard BEFORE UPDATE ON ops.trigger_receipts FOR EACH ROW EXECUTE FUNCTION ops.receipts_guard();
CREATE TRIGGER receipts_stay BEFORE DELETE OR TRUNCATE ON ops.trigger_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_outside_retention('receipts_stay');
CREATE TRIGGER receipts_count_what_left AFTER DELETE ON ops.trigger_receipts
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.count_what_left('receipts');

-- A fact leaves the undecided with its receipt only: a row deleted by hand would be
-- demand that nobody misses.
CREATE FUNCTION ops.undecided_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM gone g JOIN ops.domain_event_outbox o ON o.event_id = g.event_id
   WHERE NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = g.event_id);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'outbox_undecided',
      CONSTRAINT = 'undecided_goes_with_its_receipt', MESSAGE = 'a fact without a receipt stays undecided';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER undecided_guard AFTER DELETE ON ops.outbox_undecided
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.undecided_guard();
CREATE TRIGGER undecided_stay BEFORE UPDATE OR TRUNCATE ON ops.outbox_undecided
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse('undecided_stay', 'facts are decided by the trigger');
