package pg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

func TestWordsOfTheRailRoundTrip(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "pooler": pgx.QueryExecModeCacheDescribe,
		"exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); roundTrip(t, d, mode) })
	}
}

func roundTrip(t *testing.T, d *pgtest.DB, mode pgx.QueryExecMode) {
	a, b := rail.NewUUID(), rail.NewUUID()
	type row struct {
		ID, None   rail.UUID
		Pointer    *rail.UUID
		IDs        []rail.UUID
		Urgency    rail.Priority
		Urgencies  []rail.Priority
		Name       rail.EventName
		Names      []rail.EventName
		Spelt, Nil string
	}
	want := row{
		a,
		rail.UUID{},
		&b,
		[]rail.UUID{a, {}, b},
		rail.Bulk,
		[]rail.Priority{rail.Standard, rail.Interactive},
		"document.uploaded",
		[]rail.EventName{"a.b", "c.d"},
		a.String(), "true",
	}
	var got row
	err := d.Pool.QueryRow(t.Context(), `select $1::uuid, $2::uuid, $3::uuid, $4::uuid[], $5::smallint, $6::smallint[],
		$7::text, $8::text[], $1::uuid::text, ($2::uuid is null)::text`,
		mode, a, rail.UUID{}, &b, want.IDs, want.Urgency, want.Urgencies, want.Name, want.Names).
		Scan(&got.ID, &got.None, &got.Pointer, &got.IDs, &got.Urgency, &got.Urgencies, &got.Name, &got.Names, &got.Spelt, &got.Nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUUIDsInSetsAndUnnest(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	ids := []rail.UUID{rail.NewUUID(), rail.NewUUID(), rail.NewUUID()}
	rows, err := d.Pool.Query(t.Context(), `select id from unnest($1::uuid[], $2::smallint[]) with ordinality as u(id, p, n) order by n`,
		ids, []rail.Priority{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[rail.UUID])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Error(diff)
	}
	var none *rail.UUID
	var null bool
	if err := d.Pool.QueryRow(t.Context(), `select $1::uuid is null`, none).Scan(&null); err != nil || !null {
		t.Errorf("nil pointer: null %v, %v", null, err)
	}
}

func TestUUIDsCopyInBinary(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	if _, err := d.Pool.Exec(t.Context(), `create table u (id uuid, p smallint, n text)`); err != nil {
		t.Fatal(err)
	}
	id := rail.NewUUID()
	_, err := d.Pool.CopyFrom(t.Context(), pgx.Identifier{"u"}, []string{"id", "p", "n"},
		pgx.CopyFromRows([][]any{{id, rail.Bulk, rail.BriefLanded}, {rail.UUID{}, nil, nil}}))
	if err != nil {
		t.Fatal(err)
	}
	if n := value(t, d.Pool, `select count(*)::text from u where id = $1 and p = $2 and n = $3`, id, rail.Bulk, rail.BriefLanded); n != "1" {
		t.Errorf("rows = %s", n)
	}
}

func BenchmarkUUIDArray(b *testing.B) {
	d := pgtest.Empty(b)
	ids := make([]rail.UUID, 200)
	for i := range ids {
		ids[i] = rail.NewUUID()
	}
	var got []rail.UUID
	for b.Loop() {
		if err := d.Pool.QueryRow(b.Context(), `select $1::uuid[]`, ids).Scan(&got); err != nil {
			b.Fatal(err)
		}
	}
}
