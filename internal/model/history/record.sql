-- Laid into a test's own database: every change of jobs, runs and frames, as the
-- database itself saw it. Changes of one row are in order, as whoever writes a row
-- holds it until the commit; what was rolled back has never been.
CREATE SCHEMA history;

CREATE TABLE history.changes (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
  since timestamptz NOT NULL DEFAULT statement_timestamp(),
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  what text NOT NULL,
  before jsonb,
  after jsonb
);

CREATE FUNCTION history.note() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  INSERT INTO history.changes (what, before, after)
  VALUES (TG_ARGV[0], CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'frame' END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'frame' END);
  RETURN NULL;
END $$;

CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION history.note('job');
CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON ops.matter_frame_runs FOR EACH ROW EXECUTE FUNCTION history.note('run');
CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION history.note('frame');
