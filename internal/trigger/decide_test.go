package trigger_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

// quiet is a Loops that nobody watches.
type quiet struct{}

func (quiet) Progress(string)       {}
func (quiet) Failed(string, string) {}

func options(t testing.TB, change ...func(*trigger.Options)) trigger.Options {
	t.Helper()
	rules, err := trigger.NewRules([]trigger.Rule{uploadRule(), {Name: "brief.requested", Priority: rail.Interactive}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := trigger.Options{
		Rules: rules, MaxWait: time.Minute, MaxIdle: time.Second, Batch: 500, Wake: func() {}, Loops: quiet{}, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func newTrigger(t testing.TB, db *pgtest.DB, change ...func(*trigger.Options)) *trigger.Trigger {
	t.Helper()
	return trigger.New(db.Pool, prometheus.NewRegistry(), options(t, change...))
}

func fact(t *testing.T, db *pgtest.DB, k rail.Key, name string) (id rail.UUID) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3) RETURNING event_id`,
		k.Firm, k.Matter, name).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func once(t *testing.T, tr *trigger.Trigger, want int) {
	t.Helper()
	if n, err := tr.Once(t.Context()); err != nil || n != want {
		t.Fatalf("decided %d, %v; want %d", n, err, want)
	}
}

func value[T any](t *testing.T, db pg.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

// What no nudge brought is counted: with a queue in front it says that nudges are lost.
func TestSweptFactsAreCounted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	reg := prometheus.NewRegistry()
	tr := trigger.New(db.Pool, reg, options(t))
	fact(t, db, newKey(), "document.uploaded")
	fact(t, db, newKey(), "document.viewed")
	once(t, tr, 2)
	want := strings.NewReader("# HELP rail_facts_swept_total Facts that were decided by the sweep of the outbox and not by a nudge.\n" +
		"# TYPE rail_facts_swept_total counter\nrail_facts_swept_total 2\n")
	if err := testutil.GatherAndCompare(reg, want, "rail_facts_swept_total"); err != nil {
		t.Error(err)
	}
}

func TestEveryFactEndsWithOneReceipt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tr := newTrigger(t, db)
	k := newKey()
	for range 3 {
		fact(t, db, k, "document.uploaded")
	}
	fact(t, db, k, "document.viewed")
	fact(t, db, rail.Key{Firm: k.Firm}, "firm.created")
	once(t, tr, 5)
	once(t, tr, 0)
	if got := value[string](t, db.Pool, `SELECT string_agg(verdict || ':' || coalesce(requested_generation, 0) || 'x' || n, ' ' ORDER BY verdict)
	  FROM (SELECT verdict, requested_generation, count(*) n FROM ops.trigger_receipts GROUP BY 1, 2) r`); got != "demanded:3x3 ignored:0x2" {
		t.Errorf("receipts %s", got)
	}
	if n := value[int](t, db.Pool, `SELECT requested_generation FROM ops.matter_frame_jobs`); n != 3 {
		t.Errorf("requested %d", n)
	}
}

func TestGraceLeavesYoungFactsToTheirNudge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tr := newTrigger(t, db, func(o *trigger.Options) { o.Grace = time.Hour })
	fact(t, db, newKey(), "document.uploaded")
	once(t, tr, 0)
	once(t, newTrigger(t, db), 1)
}

func exec(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestClosedMattersAreGatedAndCanBeDecidedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `CREATE TABLE matters (firm_id uuid, matter_id uuid, closed boolean)`)
	k := newKey()
	exec(t, db, `INSERT INTO matters VALUES ($1, $2, true)`, k.Firm, k.Matter)
	const predicate = `EXISTS (SELECT 1 FROM matters x WHERE x.firm_id = m.firm_id AND x.matter_id = m.matter_id AND NOT x.closed)`
	tr := newTrigger(t, db, func(o *trigger.Options) { o.OpenMatterSQL = predicate })
	id := fact(t, db, k, "document.uploaded")
	once(t, tr, 1)
	verdict := func() string {
		return value[string](t, db.Pool, `SELECT verdict FROM ops.trigger_receipts WHERE event_id = $1`, id)
	}
	if v := verdict(); v != "gated:matter_closed" {
		t.Fatalf("verdict %s", v)
	}
	exec(t, db, `UPDATE matters SET closed = false`)
	n, err := outbox.Redecide(t.Context(), db.Pool, "gated:%", time.Now().Add(-time.Hour), rail.UUID{}, "test", "matter reopened")
	if err != nil || n != 1 {
		t.Fatalf("redecide %d, %v", n, err)
	}
	once(t, tr, 1)
	if v := verdict(); v != "demanded" {
		t.Errorf("verdict %s", v)
	}
	if n, err := outbox.Redecide(t.Context(), db.Pool, "%", time.Now().Add(-time.Hour), rail.UUID{}, "test", "again"); err != nil || n != 0 {
		t.Errorf("demand was reopened: %d, %v", n, err)
	}
}

// A fact whose decision is refused by the database alone must not hold up its
// neighbours.
func TestOneRefusedFactIsRetriedAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	bad := newKey()
	exec(t, db, `CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	  IF NEW.matter_id = '`+bad.Matter.String()+`' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END IF; RETURN NEW; END $$`)
	exec(t, db, `CREATE TRIGGER refuse_one BEFORE INSERT ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION refuse_one()`)
	tr := newTrigger(t, db)
	fact(t, db, newKey(), "document.uploaded")
	fact(t, db, bad, "document.uploaded")
	fact(t, db, newKey(), "document.uploaded")
	if _, err := tr.Once(t.Context()); err == nil {
		t.Error("the refusal was not reported")
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.trigger_receipts`); n != 2 {
		t.Errorf("%d receipts, want those of the two neighbours", n)
	}
	exec(t, db, `DROP TRIGGER refuse_one ON ops.matter_frame_jobs`)
	once(t, tr, 1)
}

// More facts than a batch that the database refuses do not stop those behind them.
func TestABatchOfRefusedFactsIsPassedOver(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	bad := rail.NewUUID()
	exec(t, db, `CREATE TABLE matters (id uuid, n int)`)
	exec(t, db, `INSERT INTO matters VALUES ($1, 0)`, bad)
	tr := newTrigger(t, db, func(o *trigger.Options) {
		o.Batch, o.OpenMatterSQL = 3, `NOT EXISTS (SELECT 1 FROM matters x WHERE CASE WHEN x.id = m.firm_id THEN 1 / x.n = 1 END)`
	})
	for range 7 {
		fact(t, db, rail.Key{Firm: bad, Matter: rail.NewUUID()}, "document.uploaded")
	}
	healthy := fact(t, db, newKey(), "document.uploaded")
	for range 3 {
		if _, err := tr.Once(t.Context()); err == nil {
			t.Fatal("the refusal was not reported")
		}
	}
	if v := value[string](t, db.Pool, `SELECT verdict FROM ops.trigger_receipts WHERE event_id = $1`, healthy); v != "demanded" {
		t.Errorf("verdict %s behind the refused", v)
	}
	exec(t, db, `UPDATE matters SET n = 2`)
	for range 3 {
		if _, err := tr.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.outbox_undecided`); n != 0 {
		t.Errorf("%d facts are still undecided", n)
	}
}

// A row that somebody holds stops the facts of its matter only.
func TestAHeldMatterDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tr := newTrigger(t, db)
	held := newKey()
	fact(t, db, held, "document.uploaded")
	once(t, tr, 1)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	fact(t, db, held, "document.uploaded")
	fact(t, db, held, "document.uploaded")
	fact(t, db, newKey(), "document.uploaded")
	if _, err := tr.Once(t.Context()); pg.SQLState(err) != "55P03" {
		t.Errorf("want the wait for the lock reported, got %v", err)
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.outbox_undecided`); n != 2 {
		t.Errorf("%d facts undecided, want the two of the held matter", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	once(t, tr, 2)
}

// Bad event names of every kind are refused by the database, by name and with the
// rule in the message; the producer's transaction learns of it at once.
func TestBadEventNamesAreRefusedByName(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	long := make([]byte, 101)
	for i := range long {
		long[i] = 'a'
	}
	long[50] = '.'
	for _, name := range []string{
		"Matter.Created", "matter.created\n", "matter", "matter.", ".created", "matter..created", "matter.created.twice", "matter created",
		"matter.créé", "_a.b", "a_.b", "a__b.c", "1a.b", "", " ", "matter.created ", "\tmatter.created", "matter.CREATED", "матер.создан", string(long),
	} {
		_, err := db.Pool.Exec(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES ($1, $2)`, rail.NewUUID(), name)
		if pg.Constraint(err) != "outbox_event_name_is_noun_verb" {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := rail.ParseEventName(name); err == nil {
			t.Errorf("%q: the Go rule takes it", name)
		}
	}
	for _, name := range []string{"matter.created", "a.b", "document_page.re_read", "a1.b2"} {
		if _, err := db.Pool.Exec(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES ($1, $2)`, rail.NewUUID(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// field report 7: a trace that cannot be read costs the trace, never the fact.
func TestUnreadableTraceNeverCostsAFact(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `INSERT INTO ops.domain_event_outbox (firm_id, event_name, traceparent, tracestate) VALUES ($1, 'firm.created', 'junk', repeat('x', 9000))`, rail.NewUUID())
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE traceparent IS NULL AND tracestate IS NULL`); n != 1 {
		t.Error("the trace was kept")
	}
}

// A mistake in the configured condition is found at the start, not by facts that
// are never decided.
func TestABadConditionIsFoundAtTheStart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for condition, sound := range map[string]bool{"": true, "true": true, "m.firm_id IS NOT NULL": true, "no_such_column = 1": false, "select from": false} {
		err := newTrigger(t, db, func(o *trigger.Options) { o.OpenMatterSQL = condition }).Probe(t.Context())
		if (err == nil) != sound {
			t.Errorf("%q: %v", condition, err)
		}
	}
}
