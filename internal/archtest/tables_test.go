package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// owners says which room writes and reads each table of the schema ops. What
// has no room is reached through functions of the database alone; those may be
// called from anywhere.
func owners() map[string]string {
	byRoom := map[string][]string{
		"internal/outbox": {
			"domain_event_outbox", "outbox_undecided", "outbox_bucket_leases",
			"outbox_relays", "outbox_failures", "ledger",
		},
		"internal/trigger": {"trigger_receipts"},
		"internal/jobs":    {"matter_frame_jobs", "dispatch_pauses", "matter_status"},
		"internal/runs":    {"matter_frame_runs"},
		"internal/frames":  {"matter_frames", "frame_arrivals", "current_frames"},
		"internal/authority": {
			"write_fences", "writers", "write_fence_changes", "write_fence_reports",
			"write_fence_holds", "write_intents", "shadow_frames", "compatibility_log", "fence_evidence",
			"write_fence_guards", "writer_paths",
		},
		"": {"audit_log", "retention_counters"},
	}
	byTable := make(map[string]string)
	for home, tables := range byRoom {
		for _, table := range tables {
			byTable[table] = home
		}
	}
	return byTable
}

// In SQL a table stands behind the schema's name, or behind a word that takes
// one. The second counts only for names with an underscore: others are plain
// English too, as in "read from ledger".
var (
	sqlSchema = regexp.MustCompile(`(?i)\bops"?\."?([a-z_]+)\b`)
	sqlTable  = regexp.MustCompile(`(?i)\b(?:from|into|update|join|only|table|using|truncate|lock)\s+"?([a-z]+_[a-z_]+)\b`)
	sqlWrite  = regexp.MustCompile(`(?i)\binsert\s+into\b|\bupdate\s+(?:only\s+)?"?ops\b|\bdelete\s+from\b|\btruncate\b|\bmerge\s+into\b|\bfor\s+(?:no\s+key\s+)?update\b|\bfor\s+(?:key\s+)?share\b`)
	sqlCreate = regexp.MustCompile(`(?i)\bcreate\s+(?:table|(?:or\s+replace\s+)?(?:materialized\s+)?view)\s+(?:if\s+not\s+exists\s+)?ops\.([a-z_]+)`)
	sqlNote   = regexp.MustCompile(`--[^\n]*`)
)

func tableLaws() []law {
	sql := func(pkg, statement string) string {
		return "package " + pkg + "\n\nconst q = `" + statement + "`\n"
	}
	return []law{
		{
			name:  "a table has one owner",
			check: checkOwners,
			broken: []example{
				one("internal/runs/a.go", sql("runs", "update ops.matter_frame_jobs set attempts = 0"), "owner is internal/jobs"),
				one("cmd/railctl/a.go", sql("main", "select 1 from ops.ledger"), "owner is internal/outbox"),
				one("internal/sweep/a.go", sql("sweep", "select 1 from matter_frame_runs"), "owner is internal/runs"),
				one("internal/jobs/a.go", sql("jobs", "insert into \"ops\".\"matter_frames\" values (1)"), "owner is internal/frames"),
				one("internal/jobs/a.go", sql("jobs", "select 1 join audit_log using (id)"), "database function"),
				one("internal/jobs/a.go", "package jobs\n\nvar t = []string{`ops`, `matter_frames`}\n", "owner is internal/frames"),
			},
			sound: []example{
				one("internal/jobs/a.go", sql("jobs", "update ops.matter_frame_jobs set attempts = 0"), ""),
				one("internal/audit/a.go", sql("audit", "select 1 from ops.matter_frames join ops.ledger on true"), ""),
				one("internal/runs/a.go", sql("runs", "select ops.land($1) -- deferred check reads ops.matter_frames"), ""),
				one("internal/config/a.go", sql("config", "ledger"), ""),
				one("internal/runs/a.go", sql("runs", "every number handed out is from the ledger's own counter"), ""),
				one("internal/brief/a.go", sql("brief", "insert into ops.domain_event_outbox default values"), ""),
				one("internal/jobs/a_test.go", sql("jobs", "select 1 from ops.matter_frame_runs"), ""),
			},
		},
		{
			name:  "audit only reads",
			check: checkAuditReads,
			broken: []example{
				one("internal/audit/a.go", sql("audit", "delete from ops.matter_frames"), "writes nothing"),
				one("internal/audit/a.go", sql("audit", "select 1 from ops.matter_frame_jobs for update"), "writes nothing"),
				one("internal/audit/a.go", sql("audit", "update ops.ledger set epoch = 1"), "writes nothing"),
			},
			sound: []example{
				one("internal/audit/a.go", sql("audit", "select count(*) from ops.matter_frames"), ""),
				one("internal/jobs/a.go", sql("jobs", "select 1 from ops.matter_frame_jobs for update"), ""),
			},
		},
		{
			name:   "a new table gets an owner",
			check:  checkNewTables,
			broken: []example{one("migrations/009.sql", "CREATE TABLE IF NOT EXISTS ops.orphan (id int);\n", "ops.orphan")},
			sound:  []example{one("migrations/003.sql", "CREATE TABLE ops.matter_frame_jobs (id int);\n", "")},
		},
	}
}

// ownerless reports whether the law does not apply: tests, the schema itself,
// code that stands for producers outside the rail, and the benchmark, which sets
// up states that no owner would.
func ownerless(f *goFile) bool {
	if f.support() {
		return true
	}
	for _, outside := range []string{"migrations", "internal/brief", "examples", "test/bench"} {
		if within(f.dir, outside) {
			return true
		}
	}
	return false
}

// literals calls visit with every string literal of the file, without SQL
// comments.
func literals(f *goFile, visit func(pos token.Pos, text string)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil {
			visit(lit.Pos(), sqlNote.ReplaceAllString(text, ""))
		}
		return true
	})
}

// tablesIn lists the table names that a literal uses as such. A literal that is
// nothing but a table's name counts too, as it may be put into SQL elsewhere.
func tablesIn(text string) []string {
	var names []string
	if strings.Contains(text, "_") {
		names = append(names, strings.TrimSpace(text))
	}
	matches := append(sqlSchema.FindAllStringSubmatch(text, -1), sqlTable.FindAllStringSubmatch(text, -1)...)
	for _, m := range matches {
		names = append(names, strings.ToLower(m[1]))
	}
	return names
}

// checkOwners refuses a table's name outside its owner, audit and migrations.
func checkOwners(t *tree) []string {
	byTable := owners()
	var found []string
	for _, f := range t.files {
		if ownerless(f) || within(f.dir, "internal/audit") {
			continue
		}
		literals(f, func(pos token.Pos, text string) {
			for _, name := range tablesIn(text) {
				if home, ok := byTable[name]; ok && (home == "" || !within(f.dir, home)) {
					found = append(found, f.at(pos)+": "+trespass(name, home))
				}
			}
		})
	}
	return found
}

// trespass says what to do instead of naming somebody else's table.
func trespass(table, home string) string {
	if home == "" {
		return fmt.Sprintf("SQL names ops.%s, which is written by a database function and read by internal/audit only", table)
	}
	return fmt.Sprintf("SQL names ops.%s, whose owner is %s: call the owner and pass it your pgx.Tx, so that a column can change in one place", table, home)
}

// checkAuditReads refuses statements of internal/audit that write or lock rows.
func checkAuditReads(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if ownerless(f) || !within(f.dir, "internal/audit") {
			continue
		}
		literals(f, func(pos token.Pos, text string) {
			if m := sqlWrite.FindString(text); m != "" && len(tablesIn(text)) > 0 {
				found = append(found, fmt.Sprintf("%s: SQL says %q: audit joins everybody's tables because it writes nothing and locks nothing", f.at(pos), m))
			}
		})
	}
	return found
}

// checkNewTables refuses a migration that makes a table or view nobody owns.
func checkNewTables(t *tree) []string {
	byTable := owners()
	var found []string
	for name, text := range t.texts {
		if !within(name, "migrations") {
			continue
		}
		for _, m := range sqlCreate.FindAllStringSubmatch(text, -1) {
			if _, ok := byTable[strings.ToLower(m[1])]; !ok {
				found = append(found, fmt.Sprintf("%s: ops.%s has no owner: name the one room that writes and reads it, in owners()", name, m[1]))
			}
		}
	}
	return found
}
