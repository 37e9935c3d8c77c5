package audit

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// rolesSQL asks whether deploy/roles.sql has been applied since the newest function of
// the schema, and which of the rail's own sessions may do anything all the same.
const rolesSQL = `
SELECT n.nspowner = (SELECT oid FROM pg_roles WHERE rolname = 'rail_owner')
         AND NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname IN ('matter_frames', 'matter_frame_jobs') AND NOT c.relrowsecurity)
         AND NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.pronamespace = n.oid AND (p.proowner <> n.nspowner
               OR EXISTS (SELECT 1 FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0))),
       ARRAY(SELECT DISTINCT split_part(s.application_name, '/', 1) || ' as ' || s.usename FROM pg_stat_activity s JOIN pg_roles r ON r.oid = s.usesysid
              WHERE s.datname = current_database() AND s.application_name ~ '^(railworker|outbox-relay)/'
                AND (r.rolsuper OR pg_has_role(s.usesysid, n.nspowner, 'USAGE')) ORDER BY 1)
  FROM pg_namespace n WHERE n.nspname = 'ops'`

// rolesInUse is about the database's defence in depth, so it warns and never fails.
func rolesInUse(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	var applied *bool // null where there is no rail_owner
	var mighty []string
	if err := tx.QueryRow(ctx, rolesSQL).Scan(&applied, &mighty); err != nil {
		return Diagnosis{}, err
	}
	switch {
	case applied == nil || !*applied:
		return found(Warn, "run `railctl roles apply`, also after each migration",
			"the rights of deploy/roles.sql are not in force: a program may do whatever its login may")
	case len(mighty) > 0:
		return found(Warn, "let each log in under its own role, rail_worker and rail_relay", "may do anything: %s", strings.Join(mighty, ", "))
	}
	return found(OK, "", "the rights of deploy/roles.sql are in force")
}
