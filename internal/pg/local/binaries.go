package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoBinaries says that this machine has no PostgreSQL server to start.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries (initdb, postgres) found: " +
	"install them (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; " +
	"macOS: brew install postgresql), or name their folder in RAIL_TEST_PG_BIN")

// Binaries is one installed PostgreSQL.
type Binaries struct {
	Dir   string // folder that holds initdb and postgres
	Major int    // major version, such as 15
}

// oldest is the first version that reports read-only state by itself.
const oldest = 14

// Find looks for PostgreSQL in dir (when not empty), RAIL_TEST_PG_BIN, PATH, the
// places where packages put it (newest version first), and pg_config. A folder
// that the caller or the variable names is the only one looked at.
func Find(dir string) (Binaries, error) {
	if dir == "" {
		dir = os.Getenv("RAIL_TEST_PG_BIN")
	}
	candidates := []string{dir}
	if dir == "" {
		candidates = places()
	}
	for _, d := range candidates {
		if major, ok := version(d); ok && major >= oldest {
			return Binaries{Dir: d, Major: major}, nil
		}
	}
	if dir != "" {
		return Binaries{}, fmt.Errorf("%s holds no PostgreSQL %d or later: %w", dir, oldest, ErrNoBinaries)
	}
	return Binaries{}, ErrNoBinaries
}

// places lists every folder worth a look, the best first.
func places() []string {
	var out []string
	if p, err := exec.LookPath("postgres"); err == nil {
		out = append(out, filepath.Dir(p))
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		dirs, _ := filepath.Glob(pattern) // the only error is a bad pattern
		found = append(found, dirs...)
	}
	slices.SortStableFunc(found, func(a, b string) int { return number(b) - number(a) })
	out = append(out, found...)
	if b, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		out = append(out, strings.TrimSpace(string(b)))
	}
	return out
}

var digits = regexp.MustCompile(`\d+`)

// number is the version in a path, 0 when it names none.
func number(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

// version asks the server binary of dir; ok is false where there is none.
func version(dir string) (major int, ok bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, false
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, false
	}
	return number(string(out)), true
}

// program is the path of one of PostgreSQL's programs. Where Dir holds links, a program
// that has none lies beside the server that they lead to.
func (b Binaries) program(name string) string {
	path := filepath.Join(b.Dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if server, err := filepath.EvalSymlinks(filepath.Join(b.Dir, "postgres")); err == nil {
		return filepath.Join(filepath.Dir(server), name)
	}
	return path
}
