-- The tables of a firm's older worker, as it might have had them for years, and its two
-- roles. Run by whoever owns the database; the roles get their passwords elsewhere.
CREATE SCHEMA legacy;

-- The whole queue: one boolean a matter. Whoever stores a document sets it, in the
-- same transaction; asked_at keeps a document that comes during a build from being lost.
CREATE TABLE legacy.matters (
  matter_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  needs_rebuild boolean NOT NULL DEFAULT true,
  asked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One Brief a matter, written over. revision is what adopting the rail added: a number
-- that orders the worker's decisions, and an index that finds the highest of a bucket.
CREATE SEQUENCE legacy.revisions;
CREATE TABLE legacy.briefs (
  matter_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  revision bigint NOT NULL,
  brief jsonb NOT NULL,
  built_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX briefs_in_order ON legacy.briefs (ops.matter_bucket(matter_id), revision);

-- What people asked for, each once.
CREATE TABLE legacy.requests (
  intent_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  matter_id uuid NOT NULL,
  payload_digest bytea NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The bridge's own: what it has brought to the rail, and the Briefs that the rail wrote
-- while this side might still come back. Neither is guarded, as neither decides anything.
CREATE TABLE legacy.imported (
  id uuid PRIMARY KEY, -- of a matter or an intent
  revision bigint NOT NULL
);
CREATE TABLE legacy.from_rail (
  matter_id uuid PRIMARY KEY,
  firm_id uuid NOT NULL,
  revision bigint NOT NULL,
  generation bigint NOT NULL,
  brief jsonb NOT NULL
);

-- What this side's readers see: whichever of both came last.
CREATE VIEW legacy.current AS
  SELECT DISTINCT ON (matter_id) matter_id, firm_id, revision, brief
    FROM (SELECT matter_id, firm_id, revision, brief FROM legacy.briefs
          UNION ALL
          SELECT matter_id, firm_id, revision, brief FROM legacy.from_rail) AS b
   ORDER BY matter_id, revision DESC;

CREATE ROLE legacy_worker LOGIN;
GRANT USAGE ON SCHEMA legacy TO legacy_worker;
GRANT SELECT, UPDATE (needs_rebuild, asked_at) ON legacy.matters TO legacy_worker;
GRANT SELECT, INSERT, UPDATE ON legacy.briefs TO legacy_worker;
GRANT SELECT, INSERT ON legacy.requests TO legacy_worker;
GRANT USAGE ON SEQUENCE legacy.revisions TO legacy_worker;

CREATE ROLE legacy_bridge LOGIN;
GRANT USAGE ON SCHEMA legacy TO legacy_bridge;
GRANT SELECT ON ALL TABLES IN SCHEMA legacy TO legacy_bridge;
GRANT INSERT, UPDATE ON legacy.imported, legacy.from_rail TO legacy_bridge;
GRANT USAGE ON SEQUENCE legacy.revisions TO legacy_bridge;

-- Whoever stays in a transaction holds a closing up.
ALTER ROLE legacy_worker SET statement_timeout = '30s';
ALTER ROLE legacy_worker SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE legacy_bridge SET statement_timeout = '30s';
ALTER ROLE legacy_bridge SET idle_in_transaction_session_timeout = '10s';

-- What the rail itself looks at in a guarded table: whose row it is, and where the
-- decisions end. Its functions run as rail_owner.
GRANT USAGE ON SCHEMA legacy TO rail_owner;
GRANT SELECT (matter_id, revision) ON legacy.briefs TO rail_owner;
GRANT SELECT (matter_id) ON legacy.requests TO rail_owner;
