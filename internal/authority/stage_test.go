package authority_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/frames"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// A stage is a ledger beside an old writer, who has authority over all 64 buckets and
// keeps its Briefs in a table of its own.
type stage struct {
	*pgtest.DB
	c             authority.Controller
	old, importer *pgxpool.Pool // sessions of the old writer's roles
	oldRole       string
	key           rail.Key
	scope         string
}

const legacyTable = `
CREATE SEQUENCE public.legacy_revisions;
CREATE TABLE public.legacy_briefs (
  matter_id uuid PRIMARY KEY, firm_id uuid NOT NULL, brief jsonb NOT NULL, revision bigint NOT NULL DEFAULT nextval('public.legacy_revisions'));
CREATE INDEX ON public.legacy_briefs (ops.matter_bucket(matter_id), revision);`

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOn(t, pgtest.Empty(t), func() *pgtest.DB { return pgtest.New(t) })
}

// newStageOn makes the roles by way of a database of the same server, as they go after
// the one that names them.
func newStageOn(t *testing.T, server *pgtest.DB, newDB func() *pgtest.DB) *stage {
	t.Helper()
	s := &stage{}
	s.oldRole = "rail_t_old_" + rail.NewUUID().String()[:8]
	importer := s.oldRole + "_in"
	for _, role := range []string{s.oldRole, importer} {
		exec(t, server.Pool, `CREATE ROLE `+role+` LOGIN`)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if _, err := server.Pool.Exec(ctx, `DROP ROLE `+role); err != nil {
				t.Logf("role %s stays: %v", role, err)
			}
		})
	}
	s.DB = newDB()
	s.c = authority.Controller{DB: s.Pool, Actor: authority.Actor{Name: "test", Reason: "a test"}}
	s.furnish(t, importer)
	s.old, s.importer = s.PoolAs(t, s.oldRole), s.PoolAs(t, importer)
	s.key = rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	s.scope = scopeOf(s.key)
	return s
}

func scopeOf(k rail.Key) string { return fmt.Sprintf("matters/bucket-%02d", rail.Bucket(k.Matter)) }

func allScopes() (scopes []string) {
	for b := range 64 {
		scopes = append(scopes, fmt.Sprintf("matters/bucket-%02d", b))
	}
	return scopes
}

func (s *stage) furnish(t *testing.T, importer string) {
	t.Helper()
	exec(t, s.Pool, legacyTable)
	for _, role := range []string{s.oldRole, importer} {
		exec(t, s.Pool, `GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON public.legacy_briefs TO `+role)
		exec(t, s.Pool, `GRANT USAGE ON SEQUENCE public.legacy_revisions TO `+role)
	}
	endpoint := "http://old.example/"
	for _, w := range []authority.Writer{
		{Name: "rail", Kind: "rail", Roles: []string{s.me(t)}},
		{Name: "old", Kind: "external", Roles: []string{s.oldRole}, Importer: &importer, Endpoint: &endpoint},
	} {
		if err := s.c.RegisterWriter(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.c.Configure(t.Context(), allScopes(), "old"); err != nil || n != 64 {
		t.Fatalf("configure: %d, %v", n, err)
	}
	if err := s.c.Guard(t.Context(), authority.Guard{Table: "public.legacy_briefs", Key: "matter_id", Writer: "old", Sequence: "revision"}); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) me(t *testing.T) string { return value[string](t, s.Pool, `SELECT current_user::text`) }

const legacyWrite = `
INSERT INTO public.legacy_briefs (matter_id, firm_id, brief) VALUES ($1, $2, $3)
ON CONFLICT (matter_id) DO UPDATE SET brief = EXCLUDED.brief, revision = nextval('public.legacy_revisions')`

// write has the old writer decide.
func (s *stage) write(ctx context.Context, db pg.DB, k rail.Key, brief string) error {
	_, err := db.Exec(ctx, legacyWrite, k.Matter, k.Firm, brief)
	return err
}

func (s *stage) mustWrite(t *testing.T, k rail.Key, brief string) {
	t.Helper()
	if err := s.write(t.Context(), s.old, k, brief); err != nil {
		t.Fatal(err)
	}
}

// legacyRow is a Brief as the old writer has it.
type legacyRow struct {
	Matter   rail.UUID
	Firm     rail.UUID
	Brief    []byte
	Revision int64
}

func (s *stage) legacy(ctx context.Context, scope string) ([]legacyRow, error) {
	rows, err := s.Pool.Query(ctx, `SELECT matter_id, firm_id, brief, revision FROM public.legacy_briefs WHERE ops.fence_scope(ops.matter_bucket(matter_id)) = $1 ORDER BY revision`, scope)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[legacyRow])
}

// heads is the old side's own view of a scope.
func (s *stage) heads(ctx context.Context, scope string, _ int64) (heads []authority.Head, err error) {
	rows, err := s.legacy(ctx, scope)
	for _, r := range rows {
		digest := digestOf(r.Brief)
		heads = append(heads, authority.Head{Key: rail.Key{Firm: r.Firm, Matter: r.Matter}, Revision: r.Revision, Digest: digest[:]})
	}
	return heads, err
}

func digestOf(doc []byte) [32]byte {
	checked, err := frames.Check(doc, 1<<20)
	if err != nil {
		return sha256.Sum256(doc)
	}
	return checked.Digest
}

// imports brings in everything that the old writer has in a scope.
func (s *stage) imports(t *testing.T, scope string) {
	t.Helper()
	rows, err := s.legacy(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		f := authority.Imported{
			Key: rail.Key{Firm: r.Firm, Matter: r.Matter}, Sequence: r.Revision, Frame: r.Brief, Digest: digestOf(r.Brief), SchemaVersion: "1", Builder: "old",
		}
		if _, err := authority.Import(t.Context(), s.importer, f); err != nil {
			t.Fatal(err)
		}
	}
}

// planned is a change of the stage's scope to the rail that is ready to close.
func (s *stage) planned(t *testing.T, change func(*authority.Move)) rail.UUID {
	t.Helper()
	m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Deadline: time.Minute, Budget: time.Minute}
	if change != nil {
		change(&m)
	}
	if _, err := s.c.Plan(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.imports(t, m.Scope)
	ch, _, err := s.c.Shadow(t.Context(), m.Change, authority.ShadowOptions{Build: s.sameFrame})
	if err != nil || ch.Phase != "shadowed" {
		t.Fatalf("shadow: %s, %v", ch.Phase, err)
	}
	return m.Change
}

// sameFrame is a builder that agrees with the old writer.
func (s *stage) sameFrame(ctx context.Context, k rail.Key) (authority.ShadowFrame, error) {
	var doc []byte
	err := s.Pool.QueryRow(ctx, `SELECT brief FROM public.legacy_briefs WHERE matter_id = $1`, k.Matter).Scan(&doc)
	return authority.ShadowFrame{JSON: doc, Digest: digestOf(doc), SchemaVersion: "1", Builder: "rail"}, err
}

// cross takes the stage's scope to the rail.
func (s *stage) cross(t *testing.T) authority.Change {
	t.Helper()
	ch, err := s.c.Cross(t.Context(), s.planned(t, nil), s.heads)
	if err != nil || ch.Outcome != "advanced" {
		t.Fatalf("cross: %+v, %v", ch, err)
	}
	return ch
}

func (s *stage) fence(t *testing.T) authority.Fence {
	t.Helper()
	f, err := authority.FenceOf(t.Context(), s.Pool, s.scope)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *stage) wantFence(t *testing.T, state, writer string, epoch int64) {
	t.Helper()
	if f := s.fence(t); f.State != state || f.Writer != writer || f.Epoch != epoch {
		t.Fatalf("the fence is %s under %s at epoch %d, want %s under %s at %d", f.State, f.Writer, f.Epoch, state, writer, epoch)
	}
}

func exec(t *testing.T, db pg.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T, db pg.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// eventually fails the test unless something comes true. It is asked often.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !yes(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// watchdog runs one, as a daemon does, until the test ends.
func (s *stage) watchdog(t *testing.T, daemon string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- authority.Watchdog{DB: s.Pool, Daemon: daemon, Every: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watchdog ended with %v", err)
		}
	})
}

// reopens waits until somebody has opened the scope again.
func (s *stage) reopens(t *testing.T) {
	t.Helper()
	eventually(t, "the closing is taken back", func() bool { return s.fence(t).State == "open" })
}

// wantState fails unless err was refused with an SQLSTATE.
func wantState(t *testing.T, what string, err error, state string) {
	t.Helper()
	if got := pg.SQLState(err); got != state {
		t.Fatalf("%s: %v, want SQLSTATE %s", what, err, state)
	}
}
