package main

import (
	"strings"
	"testing"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

const nobody = "postgres://rail:hunter2@127.0.0.1:1/none?sslmode=disable"

// Every documented code, by a call that ends with it.
func TestExitCodes(t *testing.T) {
	r := newRig(t)
	idle, queued := r.landed("b1"), r.one()
	broken := rigOn(t, pgtest.New(t))
	stuck := broken.one()
	broken.claim(stuck)
	broken.exec(`UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '2 hours', lease_expires_at = clock_timestamp() - interval '1 hour'`)
	away := &rig{t: t, env: []string{"RAIL_DATABASE_URL=" + nobody}}
	illegible := &rig{t: t, env: []string{"RAIL_DATABASE_URL=postgres://rail:hunter2@localhost:port/db"}}
	bare := rigOn(t, pgtest.Empty(t))
	for _, c := range []struct {
		rig  *rig
		want int
		says string
		args []string
	}{
		{r, exitOK, "", []string{"status"}},
		{r, exitOK, "", []string{"check"}},
		{r, exitOK, "", []string{"wait", idle.String(), "--timeout", "5s"}},
		{away, exitError, "no connection", []string{"status"}},
		{bare, exitError, "railctl migrate up", []string{"status"}},
		{illegible, exitUsage, "database connection string: invalid port", []string{"status"}},
		{illegible, exitUsage, "database connection string: invalid port", []string{"migrate", "up"}},
		{r, exitUsage, `unknown command "frobnicate"`, []string{"frobnicate"}},
		{r, exitUsage, "needs one of: cancel, demand", []string{"matter"}},
		{r, exitUsage, "unknown flag", []string{"status", "--frob"}},
		{r, exitUsage, "accepts 1 arg", []string{"matter", "show"}},
		{r, exitUsage, "is not a matter", []string{"matter", "show", "x"}},
		{r, exitUsage, "is not a matter key", []string{"matter", "show", "x/y"}},
		{r, exitUsage, "--output", []string{"status", "-o", "xml"}},
		{r, exitUsage, "database.statement_timeout", []string{"status", "--timeout", "15"}},
		{r, exitUsage, "--outcome", []string{"runs", "list", "--outcome", "won"}},
		{r, exitUsage, "--since", []string{"outbox", "list", "--since", "yesterday"}},
		{r, exitUsage, "lies ahead", []string{"epoch", "bump", "--since", "2999-01-01T00:00:00Z", "--reason", "x"}},
		{r, exitUsage, "--since", []string{"epoch", "bump", "--reason", "x"}},
		{r, exitUsage, "say which facts", []string{"outbox", "redecide", "--since", "1h", "--reason", "x"}},
		{r, exitUsage, "not judged again", []string{"outbox", "redecide", "--verdict", "demanded", "--since", "1h", "--all", "--reason", "x"}},
		{r, exitUsage, "name a FIRM, or --all", []string{"dispatch", "pause", "--reason", "x"}},
		{r, exitUsage, "migration", []string{"migrate", "print", "99"}},
		{r, exitNotFound, "no firm has a matter", []string{"matter", "show", rail.NewUUID().String()}},
		{r, exitNotFound, "did you mean", []string{"matter", "show", rail.NewUUID().String() + "/" + idle.Matter.String()}},
		{r, exitNotFound, "nothing was ever demanded", []string{"matter", "park", newKey().String(), "--reason", "x"}},
		{r, exitNotFound, "--new", []string{"matter", "demand", newKey().String(), "--reason", "x"}},
		{r, exitNotFound, "has never seen firm", []string{"matter", "park", "--firm", rail.NewUUID().String(), "--reason", "x", "--yes"}},
		{r, exitNotFound, "has never seen firm", []string{"matter", "demand", "--firm", rail.NewUUID().String(), "--reason", "x"}},
		{r, exitNotFound, "has never seen firm", []string{"matter", "unpark", "--firm", rail.NewUUID().String(), "--reason", "x"}},
		{r, exitNotFound, "has never seen firm", []string{"matter", "list", "--firm", rail.NewUUID().String()}},
		{r, exitNotFound, "--new", []string{"dispatch", "pause", rail.NewUUID().String(), "--reason", "x"}},
		{r, exitNotFound, "has never seen firm", []string{"dispatch", "resume", rail.NewUUID().String(), "--reason", "x"}},
		{r, exitOK, "", []string{"dispatch", "pause", "--new", rail.NewUUID().String(), "--reason", "x"}},
		{r, exitUsage, "--status", []string{"matter", "list", "--status", "asleep"}},
		{r, exitUsage, "railctl matter park", []string{"park"}},
		{r, exitUsage, "railctl matter park", []string{"matter", "prak"}},
		{r, exitUsage, "railctl status", []string{"-o", "json", "statsu"}},
		{r, exitNotFound, "not found", []string{"runs", "show", rail.NewUUID().String()}},
		{r, exitNotFound, "neither a matter nor a fact", []string{"explain", rail.NewUUID().String()}},
		{r, exitNotFound, "", []string{"wait", newKey().String()}},
		{r, exitRefused, "owes nothing", []string{"matter", "park", idle.String(), "--reason", "x"}},
		{r, exitRefused, "only a parked matter", []string{"matter", "unpark", queued.String(), "--reason", "x"}},
		{r, exitTimeout, "not current within", []string{"wait", queued.String(), "--timeout", "10ms"}},
		{broken, exitUnhealthy, "broken", []string{"check"}},
	} {
		got := c.rig.ctl(c.args...)
		if got.code != c.want || !strings.Contains(got.err, c.says) {
			t.Errorf("railctl %s: exit %d, want %d; said %q, want %q", strings.Join(c.args, " "), got.code, c.want, got.err, c.says)
		}
		if got.code != exitOK && got.code != exitTimeout && got.code != exitUnhealthy && got.out != "" {
			t.Errorf("railctl %s: talk on stdout: %q", strings.Join(c.args, " "), got.out)
		}
		if strings.Contains(got.err+got.out, "hunter2") {
			t.Errorf("railctl %s tells the password: %s", strings.Join(c.args, " "), got.err)
		}
	}
}

func TestStatementTimeoutIsItsOwnCode(t *testing.T) {
	r := newRig(t)
	k := r.one()
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if got := r.ctl("matter", "park", k.String(), "--reason", "x", "--timeout", "200ms"); got.code != exitTimeout {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	got := call(t, nil, "help", "exit-codes")
	for _, line := range []string{"  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "  6  "} {
		if !strings.Contains(got.out, "\n"+line) {
			t.Errorf("no line %q in\n%s", line, got.out)
		}
	}
}

func TestAmbiguousMatterListsItsFirms(t *testing.T) {
	r := newRig(t)
	k := r.one()
	other := rail.Key{Firm: rail.NewUUID(), Matter: k.Matter}
	r.claim(other)
	got := r.ctl("matter", "show", k.Matter.String())
	if got.code != exitUsage || !strings.Contains(got.err, k.String()) || !strings.Contains(got.err, other.String()) {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := r.ctl("matter", "show", k.String()); got.code != exitOK {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestStrayVariableIsRefused(t *testing.T) {
	t.Parallel()
	got := call(t, []string{"RAIL_DATABSE_URL=" + nobody}, "status")
	if got.code != exitUsage || !strings.Contains(got.err, "RAIL_DATABSE_URL") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
