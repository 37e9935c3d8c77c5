-- The outbox: facts, written by producers in the transaction that makes them
-- true. A plain INSERT from any language is enough.

CREATE TABLE ops.domain_event_outbox (
  event_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  seq bigint GENERATED ALWAYS AS IDENTITY,
  firm_id uuid NOT NULL,
  matter_id uuid,
  event_name text COLLATE "C" NOT NULL
    CONSTRAINT outbox_event_name_is_noun_verb CHECK (
      length(event_name) <= 100
      AND event_name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*$'),
  occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
    CONSTRAINT outbox_occurred_at_is_finite CHECK (isfinite(occurred_at)),
  -- set by the database whatever the producer says: ages are judged by it
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  traceparent text,
  tracestate text,
  attributes jsonb
    CONSTRAINT outbox_attributes_are_a_small_object CHECK (
      jsonb_typeof(attributes) = 'object' AND octet_length(attributes::text) <= 8192),
  bucket smallint NOT NULL GENERATED ALWAYS AS (ops.matter_bucket(coalesce(matter_id, firm_id))) STORED,
  published_at timestamptz,
  CONSTRAINT outbox_times_have_a_year CHECK (
    least(occurred_at, recorded_at, published_at) >= '0001-02-01 00:00+00' AND greatest(occurred_at, recorded_at, published_at) <= '9999-12-01 00:00+00')
);
CREATE INDEX outbox_by_matter ON ops.domain_event_outbox (firm_id, matter_id, seq);
CREATE INDEX outbox_by_age ON ops.domain_event_outbox USING brin (recorded_at) WITH (pages_per_range = 32, autosummarize = on);

-- Facts that no receipt answers yet. The hot table is never rewritten for a
-- decision, and finding the undecided costs the same at a hundred facts and at a
-- hundred million. Not a cursor: a fact that commits late brings its row along.
CREATE TABLE ops.outbox_undecided (
  seq bigint PRIMARY KEY,
  event_id uuid NOT NULL,
  recorded_at timestamptz NOT NULL CONSTRAINT undecided_has_a_year CHECK (recorded_at BETWEEN '0001-02-01 00:00+00' AND '9999-12-01 00:00+00')
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- A trace that cannot be read must never cost a fact: it is dropped instead.
CREATE FUNCTION ops.outbox_birth() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
  IF length(NEW.event_name) > 100
     OR NEW.event_name !~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*$' THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = 'ops', TABLE = 'domain_event_outbox',
      COLUMN = 'event_name', CONSTRAINT = 'outbox_event_name_is_noun_verb',
      MESSAGE = format('event name %L is not lower-case noun.verb', left(NEW.event_name, 100)),
      HINT = 'use ASCII lower-case words joined by _, one dot, at most 100 characters, like document.uploaded';
  END IF;
  NEW.recorded_at := clock_timestamp();
  NEW.published_at := NULL;
  IF NEW.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
    NEW.traceparent := NULL;
    NEW.tracestate := NULL;
  END IF;
  IF NEW.traceparent IS NULL OR length(NEW.tracestate) > 512 THEN
    NEW.tracestate := NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER outbox_birth BEFORE INSERT ON ops.domain_event_outbox FOR EACH ROW EXECUTE FUNCTION ops.outbox_birth();

-- SECURITY DEFINER: a producer may insert facts and nothing else.
CREATE FUNCTION ops.outbox_is_undecided() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO ops.outbox_undecided (seq, event_id, recorded_at) SELECT seq, event_id, recorded_at FROM born;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION ops.outbox_is_undecided() FROM PUBLIC;
CREATE TRIGGER outbox_is_undecided AFTER INSERT ON ops.domain_event_outbox
  REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION ops.outbox_is_undecided();

CREATE TRIGGER outbox_fact_is_immutable
  BEFORE UPDATE OF event_id, seq, firm_id, matter_id, event_name, occurred_at, recorded_at, traceparent, tracestate, attributes
  ON ops.domain_event_outbox
  FOR EACH ROW EXECUTE FUNCTION ops.refuse('outbox_fact_is_immutable', 'append a new fact instead');
CREATE TRIGGER outbox_facts_stay BEFORE DELETE OR TRUNCATE ON ops.domain_event_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION ops.refuse_to_others('outbox_facts_stay');
CREATE TRIGGER outbox_facts_stay_each BEFORE DELETE ON ops.domain_event_outbox
  FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION ops.refuse_to_others('outbox_facts_stay');
CREATE TRIGGER outbox_counts_what_left AFTER DELETE ON ops.domain_event_outbox
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ops.count_what_left('facts');
