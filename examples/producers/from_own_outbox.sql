-- For an application that writes an outbox already: a trigger copies what the rail
-- should know into the rail's. The application's code stays as it is, and so does
-- its own relay; nothing of its payload is copied.
--
-- app.outbox stands for the table you have. Leave this out and put your names below.
CREATE TABLE app.outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  type text NOT NULL, -- such as DocumentUploaded
  tenant_id uuid NOT NULL,
  case_id uuid,
  payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which of its types are facts for the rail, and under which name. Others are not
-- copied; a new one is a row here and no code. The check is the rail's own, so that
-- a wrong name fails here and not in the application's transaction.
CREATE TABLE app.fact_names (
  type text PRIMARY KEY,
  event_name text COLLATE "C" NOT NULL CHECK (
    length(event_name) <= 100
    AND event_name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*$')
);
INSERT INTO app.fact_names (type, event_name) VALUES
  ('DocumentUploaded', 'document.uploaded'),
  ('DocumentDeleted', 'document.deleted'),
  ('TenantCreated', 'firm.created'); -- without a matter: published, and builds nothing

-- Once for each statement, however many rows it has. The fact keeps the id that the
-- application gave, so one question finds both, and a replayed row is no second fact.
-- SECURITY DEFINER: only the owner of this function needs the grants on the rail.
CREATE FUNCTION app.tell_the_rail() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name, occurred_at)
  SELECT a.id, a.tenant_id, a.case_id, n.event_name, a.created_at
    FROM appended a JOIN app.fact_names n ON n.type = a.type
   ORDER BY a.created_at, a.id
  ON CONFLICT (event_id) DO NOTHING;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION app.tell_the_rail() FROM PUBLIC;

CREATE TRIGGER tell_the_rail AFTER INSERT ON app.outbox
  REFERENCING NEW TABLE AS appended FOR EACH STATEMENT EXECUTE FUNCTION app.tell_the_rail();

-- What app.outbox held before is not copied. If it should be, run the SELECT above
-- once with app.outbox in the place of "appended"; repeating that is harmless.
