package authority

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

// Right is something that a role of a writer may still do in this database.
type Right struct {
	Role   string `json:"role" db:"role"`
	What   string `json:"what" db:"what"` // a table, or login
	Rights string `json:"rights" db:"rights"`
}

// Rights lists what the roles of a writer may still do: of a retired one, nothing.
func Rights(ctx context.Context, db pg.DB, writer string) ([]Right, error) {
	return list[Right](ctx, db, "Rights", `SELECT role, what, rights FROM ops.writer_rights($1)`, writer)
}

// RetireWriter retires a writer for good, once it has authority over nothing and no
// window is open to it. admin, a session that may, then takes its rights and its login
// away; nil leaves that to a person. What is left is returned: a table that it owns
// needs another owner first.
func (c Controller) RetireWriter(ctx context.Context, writer string, admin pg.DB) ([]Right, error) {
	if _, err := c.DB.Exec(ctx, `SELECT ops.retire_writer($1, $2, $3)`, writer, c.Actor.Name, c.Actor.Reason); err != nil {
		return nil, wrap("RetireWriter("+writer+")", err)
	}
	rights, err := Rights(ctx, c.DB, writer)
	if err != nil || admin == nil {
		return rights, err
	}
	for _, r := range rights {
		if err := revoke(ctx, admin, r); err != nil {
			return rights, err
		}
	}
	return Rights(ctx, c.DB, writer)
}

// revoke takes one right away. What a role holds by being a member of another, or as
// owner, stays and is told.
func revoke(ctx context.Context, admin pg.DB, r Right) error {
	role := pgx.Identifier{r.Role}.Sanitize()
	sql := `REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON ` + r.What + ` FROM ` + role
	switch {
	case r.What == "login":
		sql = `ALTER ROLE ` + role + ` NOLOGIN`
	case strings.Contains(r.Rights, "OWNER"):
		return nil
	}
	if _, err := admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("authority.RetireWriter: %s of %s: %w", r.What, r.Role, err)
	}
	return nil
}

// Remove takes the fence away where every bucket is the rail's and every other writer
// retired, so that nobody pays for it any more; history stays. fences is how many went.
func (c Controller) Remove(ctx context.Context) (fences int, err error) {
	err = c.DB.QueryRow(ctx, `SELECT ops.remove_authority($1, $2)`, c.Actor.Name, c.Actor.Reason).Scan(&fences)
	return fences, wrap("Remove", err)
}
