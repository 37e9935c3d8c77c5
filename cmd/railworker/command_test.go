package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/pg/pgtest"
)

// Mistakes end the program before it does anything, each with words that help.
func TestConfigurationMistakes(t *testing.T) {
	t.Parallel()
	fine := quick("postgres://rail@127.0.0.1:1/none", "http://127.0.0.1:1/build")
	without := func(key string) settings {
		s := fine.with(nil)
		delete(s, key)
		return s
	}
	for name, c := range map[string]struct {
		set  settings
		want []string
	}{
		"no unit":     {fine.with(settings{"LEASE_DURATION": "15"}), []string{"lease.duration", "unit"}},
		"wrong unit":  {fine.with(settings{"LEASE_DURATION": "15mm"}), []string{"lease.duration"}},
		"misspelt":    {fine.with(settings{"LEASE_DURATON": "15s"}), []string{"RAIL_LEASE_DURATON", "RAIL_LEASE_DURATION"}},
		"half a name": {fine.with(settings{"LEASE": "15"}), []string{"RAIL_LEASE"}},
		"no database": {without("DATABASE_URL"), []string{"database.url", "RAIL_DATABASE_URL"}},
		"no builder":  {without("BUILDER_HTTP_URL"), []string{"builder.http.url"}},
		"small pool":  {fine.with(settings{"DATABASE_MAX_CONNS": "3"}), []string{"database.max_conns", "5"}},
		// field report 2: a lease that the builder outlasts, and that nobody renews
		"short lease": {fine.with(settings{"LEASE_RENEW": "off", "LEASE_DURATION": "60s", "BUILDER_TIMEOUT": "15m"}), []string{"lease.duration", "builder.timeout", "lease.renew"}},
		"bad url":     {fine.with(settings{"DATABASE_URL": "postgres://rail:s3cret@127.0.0.1/x?sslmode=perhaps"}), []string{"database.url", "sslmode"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, text := output(t, c.set, "run")
			if code != daemon.ExitUsage {
				t.Errorf("exit %d", code)
			}
			for _, w := range append(c.want, "railworker:") {
				if !strings.Contains(text, w) {
					t.Errorf("no word of %q in:\n%s", w, text)
				}
			}
			if strings.Contains(text, "s3cret") {
				t.Error("the password is shown")
			}
		})
	}
}

func TestSchemaOutOfRange(t *testing.T) {
	t.Parallel()
	empty, newer := pgtest.Empty(t), pgtest.New(t)
	if _, err := newer.Pool.Exec(t.Context(), `UPDATE ops.schema_version SET version = version + 1000`); err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*pgtest.DB{"missing": empty, "newer": newer} {
		code, text := output(t, quick(db.DSN, "http://127.0.0.1:1/"), "run")
		if code != daemon.ExitError || !strings.Contains(text, "railctl migrate up") {
			t.Errorf("%s: exit %d:\n%s", name, code, text)
		}
	}
}

// A condition that the database does not take is a mistake of the configuration, told
// before anything is decided.
func TestBadOpenMatterCondition(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tell(t, db.Pool, uploaded, newKey())
	s := quick(db.DSN, "http://127.0.0.1:1/")
	for condition, word := range map[string]string{
		"no_such_column = 1":                 "no_such_column",
		"m.firm_id = 7":                      "uuid = integer",
		"EXISTS (SELECT FROM no_such_table)": "no_such_table",
		"m.firm_id IS NOT NULL AND":          "syntax error",
	} {
		code, text := output(t, s.with(settings{"TRIGGER_OPEN_MATTER_SQL": condition}), "run")
		if code != daemon.ExitUsage {
			t.Errorf("%s: exit %d", condition, code)
		}
		for _, w := range []string{"railworker:", "trigger.open_matter_sql", word, "write a condition over m.firm_id and m.matter_id"} {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no word of %q in:\n%s", condition, w, text)
			}
		}
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.trigger_receipts`); n != 0 {
		t.Errorf("%d facts were decided", n)
	}
	w := startWorker(t, s.with(settings{"TRIGGER_OPEN_MATTER_SQL": "m.firm_id IS NOT NULL"}))
	eventually(t, 10*time.Second, "ready with a sound condition", w.ready)
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := quick(db.DSN, "http://127.0.0.1:1/")
	w := startWorker(t, s)
	ask := s.with(settings{"ADMIN_LISTEN": w.admin})
	eventually(t, 10*time.Second, "ready", w.ready)
	if code, text := output(t, ask, "healthcheck"); code != daemon.ExitOK {
		t.Errorf("of a ready worker: exit %d:\n%s", code, text)
	}
	w.kill()
	if code, text := output(t, ask, "healthcheck"); code != daemon.ExitUnhealthy {
		t.Errorf("of none: exit %d:\n%s", code, text)
	}
	if code, _ := output(t, ask, "healthcheck", "extra"); code != daemon.ExitUsage {
		t.Errorf("wrong command line: exit %d", code)
	}
}

// A worker whose database is away is alive and not ready: who replaces what is not
// alive must leave it alone.
func TestHealthcheckOfTheLiving(t *testing.T) {
	t.Parallel()
	s := quick("postgres://rail@127.0.0.1:1/away", "http://127.0.0.1:1/")
	w := launch(t, s, "run")
	eventually(t, time.Minute, "the worker listens", func() bool { return w.log.field("listening", "listen") != "" })
	ask := s.with(settings{"ADMIN_LISTEN": w.log.field("listening", "listen")})
	for _, c := range []struct {
		flag string
		want int
	}{{"--live", daemon.ExitOK}, {"--live=false", daemon.ExitUnhealthy}, {"--live=perhaps", daemon.ExitUsage}} {
		if code, text := output(t, ask, "healthcheck", c.flag); code != c.want {
			t.Errorf("%s: exit %d, want %d:\n%s", c.flag, code, c.want, text)
		}
	}
	w.kill()
	if code, text := output(t, ask, "healthcheck", "--live"); code != daemon.ExitUnhealthy {
		t.Errorf("of none: exit %d:\n%s", code, text)
	}
}

func TestAdminAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	db := pgtest.New(t)
	code, text := output(t, quick(db.DSN, "http://127.0.0.1:1/").with(settings{"ADMIN_LISTEN": l.Addr().String()}), "run")
	if code != daemon.ExitError || !strings.Contains(text, "admin listener") {
		t.Errorf("exit %d:\n%s", code, text)
	}
}

func TestHangupSwitchesDebugLogging(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	w := startWorker(t, quick(db.DSN, "http://127.0.0.1:1/"))
	for _, level := range []string{"DEBUG", "INFO"} {
		w.signal(syscall.SIGHUP)
		eventually(t, 5*time.Second, "level "+level, func() bool { return strings.Contains(w.log.String(), `"now":"`+level+`"`) })
	}
	if w.gone() {
		t.Error("a hangup ended the worker")
	}
}
