package archtest

import (
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// room is one package (with everything below it) and the rooms it may import.
// internal/rail, the shared words, may be imported from everywhere but model.
type room struct {
	path    string
	imports []string
}

// rooms is the direction of the house: imports go down only, never sideways.
// Level 4, cmd/*, may import anything and is not listed.
func rooms() []room {
	owners := []string{
		"internal/outbox", "internal/jobs", "internal/frames", "internal/authority",
		"internal/relay", "internal/trigger", "internal/runs",
	}
	return []room{
		// level 0: words and the ground
		{"internal/rail", nil},
		{"internal/pg", nil},
		{"deploy", nil}, // files for those who run the rail, embedded
		{"internal/pg/pgtest", []string{"internal/pg", "migrations", "deploy"}}, // a room of its own: programs must not rest on it
		{"internal/model", nil},
		{"internal/config", nil},
		{"internal/web", nil}, // how listeners end and what pages tell a browser
		{"internal/telemetry", []string{"internal/web"}},
		{"internal/archtest", nil},
		{"migrations", []string{"internal/pg"}},
		// level 1: each owns its rows
		{"internal/outbox", []string{"internal/pg"}},
		{"internal/jobs", []string{"internal/pg"}},
		{"internal/frames", []string{"internal/pg"}},
		{"internal/authority", []string{"internal/pg", "internal/web"}},
		{"internal/nudge", nil},
		// level 2: what happens between rows
		{"internal/relay", []string{"internal/pg", "internal/outbox", "internal/nudge"}},
		{"internal/trigger", []string{"internal/pg", "internal/jobs", "internal/outbox", "internal/nudge"}},
		{"internal/runs", []string{"internal/pg", "internal/jobs", "internal/frames", "internal/authority", "internal/outbox"}},
		// level 3: what looks at several owners
		{"internal/sweep", []string{"internal/pg", "internal/jobs", "internal/runs", "internal/outbox"}},
		{"internal/audit", append([]string{"internal/pg"}, owners...)},
		// level 4, beside cmd
		{"internal/console", append([]string{"internal/pg", "internal/web", "internal/audit", "internal/sweep"}, owners...)},
		// outside the rail: a build service and a client as anybody could write them
		{"internal/brief", []string{"internal/pg"}},
		{"client", nil},
		// measures the rooms as a worker puts them together; not built into bin/
		{"test/bench", []string{
			"internal/pg", "internal/jobs", "internal/runs", "internal/frames", "internal/trigger", "internal/sweep", "internal/outbox", "internal/relay", "internal/nudge", "migrations", "internal/authority", "internal/authority/rivals",
		}},
		// sets the checker beside other people's; not built into bin/
		{"test/peers", []string{"internal/model"}},
	}
}

// ban is an edge with a reason of its own, said before the general one.
type ban struct{ from, to, why string }

// bans are the edges that would cost most.
func bans() []ban {
	claim := "a job is the ledger row; who asks for it, serves it or cleans it stands above, or the row could not outlive them"
	cut := "the write fence is deletable in one commit only while it knows nothing of jobs and runs"
	return []ban{
		{"internal/jobs", "internal/runs", claim},
		{"internal/jobs", "internal/trigger", claim},
		{"internal/jobs", "internal/frames", claim},
		{"internal/jobs", "internal/sweep", claim},
		{"internal/jobs", "internal/nudge", "a nudge is a tap on the shoulder, never a reason in the ledger"},
		{"internal/relay", "internal/jobs", "the relay carries facts and cannot know what they cause"},
		{"internal/authority", "internal/jobs", cut},
		{"internal/authority", "internal/runs", cut},
		{"internal/trigger", "internal/runs", "they meet in a channel of one, handed over where the program is assembled"},
		{"internal/runs", "internal/trigger", "they meet in a channel of one, handed over where the program is assembled"},
		{"internal/model", "internal/rail", "the model must not share a mistake with what it checks: standard library only"},
	}
}

// guest is a package that only some rooms may import, wherever it comes from.
type guest struct {
	path  string
	rooms []string
	why   string
}

// guests are the fenced imports.
func guests() []guest {
	internal := func(name string) string { return module + "/internal/" + name }
	return []guest{
		{"github.com/spf13/viper", []string{"internal/config"}, "only a validated struct may leave internal/config"},
		{"github.com/aws/aws-sdk-go-v2", []string{"internal/nudge"}, "the cloud is a way to nudge and nothing else"},
		{"go.opentelemetry.io", []string{"internal/telemetry/tracing"}, "a collector may be away, or be another's tomorrow: rooms take a rail.Tracer"},
		{"github.com/jackc/tern", []string{"migrations", "internal/pg", "internal/brief"}, "a schema is changed by migrations, never on the way"},
		{"github.com/spf13/cobra", []string{"cmd"}, "verbs and flags belong to programs"},
		{"github.com/klippa-app/go-pdfium", []string{"internal/brief"}, "the rail never learns what a document is"},
		{internal("config"), []string{"cmd", "internal/config"}, "packages take an Options struct, so a test needs no settings file"},
		{internal("telemetry"), []string{"cmd", "internal/telemetry"}, "packages take a *slog.Logger and a Registerer"},
		{internal("brief"), []string{"cmd", "internal/brief"}, "the rail never learns what a document is"},
		{internal("model"), []string{"cmd/railctl", "cmd/internal/explorer", "internal/model", "test/peers"}, "a model that production runs on can no longer judge it"},
		{internal("pg/pgtest"), []string{"internal/pg/pgtest"}, "throwaway databases serve tests"},
		{internal("archtest"), nil, "it has nothing to offer but its tests"},
	}
}

func importLaws() []law {
	src := func(pkg, imported string) string {
		return "package " + pkg + "\nimport _ \"" + imported + "\"\n"
	}
	return []law{
		{
			name:  "imports go down",
			check: checkDirection,
			broken: []example{
				one("internal/jobs/a.go", src("jobs", "briefrail/internal/runs"), "could not outlive them"),
				one("internal/relay/a.go", src("relay", "briefrail/internal/jobs"), "cannot know what they cause"),
				one("internal/outbox/a.go", src("outbox", "briefrail/internal/frames"), "imports go down only"),
				one("internal/jobs/x/a.go", src("x", "briefrail/internal/sweep"), "could not outlive them"),
				one("internal/attic/a.go", src("attic", "fmt"), "has no place in the house"),
				one("internal/nudge/a.go", src("nudge", "briefrail/internal/pg"), "imports go down only"),
				one("internal/model/a.go", src("model", "briefrail/internal/rail"), "share a mistake"),
				one("internal/jobs/a.go", src("jobs", "briefrail/cmd/railctl"), "imports go down only"),
			},
			sound: []example{
				one("internal/runs/a.go", src("runs", "briefrail/internal/jobs"), ""),
				one("internal/jobs/a.go", src("jobs", "briefrail/internal/rail"), ""),
				one("internal/jobs/a_test.go", src("jobs", "briefrail/internal/pg/pgtest"), ""),
				one("cmd/railworker/main.go", src("main", "briefrail/internal/sweep"), ""),
				one("internal/brief/pdf/a.go", src("pdf", "briefrail/internal/brief"), ""),
			},
		},
		{
			name:  "fenced imports",
			check: checkGuests,
			broken: []example{
				one("internal/runs/a.go", src("runs", "github.com/spf13/viper"), "validated struct"),
				one("internal/relay/a.go", src("relay", "github.com/aws/aws-sdk-go-v2/service/sqs"), "a way to nudge"),
				one("internal/runs/a.go", src("runs", "go.opentelemetry.io/otel/trace"), "rail.Tracer"),
				one("internal/telemetry/a.go", src("telemetry", "go.opentelemetry.io/otel/sdk/trace"), "rail.Tracer"),
				one("internal/runs/a.go", src("runs", "briefrail/internal/config"), "Options"),
				one("internal/runs/a.go", src("runs", "briefrail/internal/telemetry"), "slog.Logger"),
				one("internal/trigger/a.go", src("trigger", "briefrail/internal/brief/record"), "what a document is"),
				one("internal/jobs/a.go", src("jobs", "briefrail/internal/model/specs"), "no longer judge"),
				one("cmd/internal/daemon/a.go", src("daemon", "briefrail/internal/model"), "no longer judge"),
				one("internal/jobs/a.go", src("jobs", "briefrail/internal/pg/pgtest"), "serve tests"),
			},
			sound: []example{
				one("internal/config/a.go", src("config", "github.com/spf13/viper"), ""),
				one("internal/nudge/a.go", src("nudge", "github.com/aws/aws-sdk-go-v2/aws"), ""),
				one("internal/telemetry/tracing/a.go", src("tracing", "go.opentelemetry.io/otel/trace"), ""),
				one("cmd/railworker/a.go", src("main", "briefrail/internal/config"), ""),
				one("cmd/internal/explorer/a.go", src("explorer", "briefrail/internal/model/specs"), ""),
				one("internal/jobs/a_test.go", src("jobs_test", "briefrail/internal/model"), ""),
			},
		},
		{
			name:  "words, model and client on the standard library alone",
			check: checkStdlib,
			broken: []example{
				one("internal/rail/a.go", src("rail", "github.com/jackc/pgx/v5"), "standard library only"),
				one("internal/model/specs/a.go", src("specs", "golang.org/x/sync/errgroup"), "standard library only"),
				one("client/a.go", src("client", "github.com/google/uuid"), "standard library only"),
			},
			sound: []example{one("internal/rail/a.go", src("rail", "crypto/sha256"), "")},
		},
	}
}

// roomOf returns the deepest listed room that dir lies in.
func roomOf(dir string) (room, bool) {
	var best room
	for _, r := range rooms() {
		if within(dir, r.path) && len(r.path) > len(best.path) {
			best = r
		}
	}
	return best, best.path != ""
}

// checkDirection judges every import of one room of this module by another.
func checkDirection(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.isTest() || within(f.dir, "cmd") || within(f.dir, "examples") || f.dir == "." {
			continue
		}
		home, ok := roomOf(f.dir)
		if !ok {
			found = append(found, fmt.Sprintf("%s: this package has no place in the house: give it one in rooms(), or put it into the room that owns its work", f.dir))
			continue
		}
		for imported, pos := range f.imports() {
			target, ours := strings.CutPrefix(imported, module+"/")
			if ours && !mayImport(home, target) {
				found = append(found, fmt.Sprintf("%s: %s imports %s: %s", f.at(pos), home.path, target, reason(home, target)))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mayImport reports whether the edge from home to target is allowed.
func mayImport(home room, target string) bool {
	there, ok := roomOf(target)
	if !ok {
		return false
	}
	if there.path == home.path || (there.path == "internal/rail" && home.path != "internal/model" && home.path != "client") {
		return true
	}
	return slices.Contains(home.imports, there.path)
}

// reason says why an edge is refused.
func reason(home room, target string) string {
	for _, b := range bans() {
		if b.from == home.path && within(target, b.to) {
			return b.why
		}
	}
	return "imports go down only, never sideways; it may import internal/rail and " + fmt.Sprint(home.imports)
}

// checkGuests judges imports that only some rooms may have. Tests may import
// what they need, except the programs' own settings library and the cloud's.
func checkGuests(t *tree) []string {
	var found []string
	for _, f := range t.files {
		for imported, pos := range f.imports() {
			for _, g := range guests() {
				ours := strings.HasPrefix(g.path, module)
				if !within(imported, g.path) || (ours && f.isTest()) || admitted(f, g) {
					continue
				}
				found = append(found, fmt.Sprintf("%s: imports %s, which only %v may: %s", f.at(pos), imported, g.rooms, g.why))
			}
		}
	}
	return found
}

// admitted reports whether the file's room is on the guest's list.
func admitted(f *goFile, g guest) bool {
	return slices.ContainsFunc(g.rooms, func(r string) bool { return within(f.dir, r) })
}

// checkStdlib keeps rail and model free of every other module, and client, which
// others take into their programs.
func checkStdlib(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.isTest() || (!within(f.dir, "internal/rail") && !within(f.dir, "internal/model") && !within(f.dir, "client")) {
			continue
		}
		for imported, pos := range f.imports() {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
				found = append(found, foreign(f, pos, imported))
			}
		}
	}
	return found
}

// foreign is checkStdlib's complaint.
func foreign(f *goFile, pos token.Pos, imported string) string {
	return fmt.Sprintf("%s: imports %s: standard library only, so that a word's meaning cannot depend on a technology", f.at(pos), imported)
}
