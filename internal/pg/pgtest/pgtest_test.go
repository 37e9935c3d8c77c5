package pgtest

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"briefrail/internal/pg"
)

func small(comment string) pg.Set {
	return pg.Set{Schema: "demo", FS: fstest.MapFS{"001_first.sql": {
		Data: []byte("-- " + comment + "\ncreate table demo.things (id int primary key);\ninsert into demo.things values (7);"),
	}}}
}

func TestEveryTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	a, b := NewWith(t, small("")), NewWith(t, small(""))
	if _, err := a.Pool.Exec(t.Context(), `delete from demo.things`); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.Pool.QueryRow(t.Context(), `select count(*) from demo.things`).Scan(&n); err != nil || n != 1 {
		t.Errorf("rows in the other database = %d, %v", n, err)
	}
}

func TestDatabasesGoWithTheirTests(t *testing.T) {
	t.Parallel()
	watcher := Empty(t)
	var name string
	t.Run("inner", func(t *testing.T) {
		d := Empty(t)
		name = d.Name
		d.NewPool(t, 2)
	})
	var left bool
	err := watcher.Pool.QueryRow(t.Context(), `select exists (select from pg_database where datname = $1)`, name).Scan(&left)
	if err != nil || left {
		t.Errorf("database %s left behind: %v, %v", name, left, err)
	}
}

func TestChangedMigrationsMakeAnotherTemplate(t *testing.T) {
	t.Parallel()
	a, errA := templateName([]pg.Set{small("one")})
	b, errB := templateName([]pg.Set{small("two")})
	if errA != nil || errB != nil || a == b {
		t.Errorf("names %q, %q; %v, %v", a, b, errA, errB)
	}
}

func TestAbandoned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, want := range map[string]bool{
		fmt.Sprintf("rail_t_%d_%d_00000000", now.Unix(), os.Getpid()):                   false,
		fmt.Sprintf("rail_t_%d_%d_00000000", now.Add(-3*time.Hour).Unix(), os.Getpid()): true,
		"rail_t_x_1_2": false,
		"rail_t_":      false,
		"production":   false,
	} {
		if got := abandoned(name, now); got != want {
			t.Errorf("abandoned(%q) = %v", name, got)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	dsn := server(b)
	for b.Loop() {
		d := &DB{Name: newName(), admin: dsn}
		if err := d.create(b.Context(), []pg.Set{small("")}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d.drop(b)
		b.StartTimer()
	}
}

func BenchmarkDrop(b *testing.B) {
	dsn := server(b)
	for b.Loop() {
		b.StopTimer()
		d := &DB{Name: newName(), admin: dsn}
		if err := d.create(b.Context(), []pg.Set{small("")}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		d.drop(b)
	}
}

func TestNewIsMigrated(t *testing.T) {
	t.Parallel()
	if err := Ops().Check(t.Context(), New(t).Pool); err != nil {
		t.Error(err)
	}
}
