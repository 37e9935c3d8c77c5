-- A fact from psql:
--   psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -v firm=UUID -v matter=UUID -v name=lease.pdf -f fact.sql
-- The document and the fact are one transaction: either both are true or neither is.
BEGIN;

INSERT INTO app.documents (firm_id, matter_id, name)
VALUES (:'firm', :'matter', :'name');

-- The name is noun.verb in lower case; the database refuses anything else and says
-- so. event_id and the times have defaults.
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
VALUES (:'firm', :'matter', 'document.uploaded');

COMMIT;
