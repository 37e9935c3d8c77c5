# Read by the entrypoint of the postgres image, once, on an empty data folder. It makes
# the logins with their passwords; what each of them may do is deploy/roles.sql, which
# railctl applies. A password is read by psql itself, so no process list shows it.
set -e
psql -qX -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
\set migrator `cat /run/secrets/rail_migrator`
\set app `cat /run/secrets/rail_app`
\set relay `cat /run/secrets/rail_relay`
\set worker `cat /run/secrets/rail_worker`
\set operator `cat /run/secrets/rail_operator`
\set builder `cat /run/secrets/brief_builder`
CREATE ROLE rail_migrator LOGIN PASSWORD :'migrator';
CREATE ROLE rail_app LOGIN PASSWORD :'app';
CREATE ROLE rail_relay LOGIN PASSWORD :'relay';
CREATE ROLE rail_worker LOGIN PASSWORD :'worker';
CREATE ROLE rail_operator LOGIN PASSWORD :'operator';
-- The build service keeps its documents in a schema of its own, and appends facts as
-- the application does.
CREATE ROLE brief_builder LOGIN PASSWORD :'builder' IN ROLE rail_app;
SELECT format('GRANT CREATE ON DATABASE %I TO brief_builder', current_database()) \gexec
SQL
