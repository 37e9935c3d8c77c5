package authority_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"briefrail/internal/pg"
)

// scribbles is the name of the sessions that may be struck.
const scribbles = "scribbles"

// A scribbler writes in one way for one side, comes back when it was struck, and is
// itself killed now and then.
type scribbler struct {
	how        string
	statements []string
	dsn        string
	side       *side
	matter     string
	gid        string // of what it prepares
	tally      *tally
}

type tally struct{ accepted, refused, lost atomic.Int64 }

const insertSQL = `INSERT INTO {table} (matter_id, how) VALUES ('{matter}', '{how}')`

// admitted writes a row that knows its epoch, some time after it was admitted.
var admitted = []string{
	`BEGIN`, `SELECT set_config('oracle.epoch', ops.admit_matter('{matter}', '{writer}')::text, true)`, `SELECT pg_sleep(random() * 0.03)`,
	`INSERT INTO {table} (matter_id, how, epoch) VALUES ('{matter}', '{how}', current_setting('oracle.epoch')::bigint)`, `COMMIT`,
}

// unfresh reads what is committed at its first statement, for as long as it lasts.
var unfresh = []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM {table}`, `SELECT pg_sleep(random() * 0.03)`, insertSQL, `COMMIT`}

// allWays is each way in which programs write that know of no fence, or of too little.
func allWays() map[string][]string {
	return map[string][]string{
		"raw":        {insertSQL},
		"slow":       {`BEGIN`, insertSQL, `SELECT pg_sleep(random() * 0.03)`, `COMMIT`},
		"savepoints": {`BEGIN`, `SAVEPOINT a`, insertSQL, `ROLLBACK TO a`, insertSQL, `RELEASE a`, `SAVEPOINT b`, insertSQL, `RELEASE b`, `COMMIT`},
		"immediate":  {`BEGIN`, insertSQL, `SET CONSTRAINTS ALL IMMEDIATE`, insertSQL, `COMMIT`},
		"replica":    {`BEGIN`, `SET LOCAL session_replication_role = replica`, `SET LOCAL ROLE {role}`, insertSQL, `COMMIT`},
		"prepared":   {`BEGIN`, insertSQL, `PREPARE TRANSACTION '{gid}'`, `COMMIT PREPARED '{gid}'`},
		"unfresh":    unfresh,
		"admitted":   admitted,
	}
}

// scribblers are one for each way and side; through is nil, or the way by a pooler.
func (o *oracle) scribblers(t *testing.T, ways map[string][]string, through func(string) string) (all []scribbler) {
	t.Helper()
	for _, s := range o.sides {
		for _, how := range slices.Sorted(maps.Keys(ways)) {
			w := scribbler{how: how, side: s, matter: o.key.Matter.String(), gid: s.writer + " " + o.oldRole + " " + how, tally: &tally{}}
			w.dsn = o.As(t, s.role)
			if how == "replica" { // a superuser's alone
				w.dsn = o.DSN
			}
			if through != nil {
				w.dsn = through(w.dsn)
			}
			spelt := strings.NewReplacer("{table}", s.table, "{writer}", s.writer, "{role}", s.role, "{gid}", w.gid)
			for _, sql := range ways[how] {
				w.statements = append(w.statements, spelt.Replace(sql))
			}
			all = append(all, w)
		}
	}
	return all
}

// pooler is PgBouncer before the test's server, which lets both sides in.
func (o *oracle) pooler(t *testing.T) func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users.txt")
	var users strings.Builder
	for _, name := range []string{"postgres", o.sides[0].role, o.sides[1].role} {
		fmt.Fprintf(&users, "%q \"\"\n", name)
	}
	if err := os.WriteFile(file, []byte(users.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	// fewer sessions than writers would all wait for a seal, which waits for what one of
	// those without a session has prepared, until its deadline
	return o.Pooler(t, map[string]string{"auth_file": file, "default_pool_size": "30"})
}

func (w scribbler) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(w.dsn)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = scribbles
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return conn, w.settle(ctx, conn)
}

// settle commits what the scribbler had prepared when it was struck. The session that
// was struck may be at it still (55000): then it is tried again.
func (w scribbler) settle(ctx context.Context, conn *pgx.Conn) error {
	if w.how != "prepared" {
		return nil
	}
	_, err := conn.Exec(ctx, `COMMIT PREPARED '`+w.gid+`'`)
	if state := pg.SQLState(err); state == "42704" || state == "55000" { // there is none, or it is busy
		return nil
	}
	return err
}

// finish leaves nothing prepared behind.
func (w scribbler) finish(ctx context.Context) error {
	if w.how != "prepared" {
		return nil
	}
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// run writes until ctx ends. What a fence or a kill does to it is no failure.
func (w scribbler) run(ctx context.Context, t *testing.T) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = w.connect(ctx); err != nil && !struck(err) && ctx.Err() == nil {
				t.Errorf("%s of %s: %v", w.how, w.side.writer, err)
				return
			}
			continue
		}
		killed := w.maybeKill(conn)
		committed, err := play(ctx, conn, w.matter, w.how, w.statements)
		killed()
		if pg.SQLState(err) == "42710" { // the pooler went on for a client that was torn away
			w.tally.lost.Add(1)
			err = w.settle(ctx, conn)
			if err == nil {
				continue
			}
		}
		if err := w.note(committed, err); err != nil && ctx.Err() == nil {
			t.Errorf("%s of %s: %v", w.how, w.side.writer, err)
			return
		}
	}
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// maybeKill tears the client away from its session in the middle of something, as its
// end by a signal does; the returned function calls that off.
func (w scribbler) maybeKill(conn *pgx.Conn) (callOff func()) {
	if rand.N(50) != 0 {
		return func() {}
	}
	timer := time.AfterFunc(rand.N(20*time.Millisecond), func() { _ = conn.PgConn().Conn().Close() })
	return func() { timer.Stop() }
}

// note counts what became of an attempt and returns what should not have become of it.
func (w scribbler) note(committed bool, err error) error {
	state := pg.SQLState(err)
	switch {
	case committed:
		w.tally.accepted.Add(1)
		select {
		case w.side.wrote <- struct{}{}:
		default:
		}
	case state == "RF503" || state == "RF409" || state == "RF412" && w.how == "unfresh":
		w.tally.refused.Add(1)
	case struck(err):
		w.tally.lost.Add(1)
	default:
		return err
	}
	return nil
}

// struck is an error of a session that was ended.
func struck(err error) bool {
	var answered *pgconn.PgError
	if !errors.As(err, &answered) {
		return err != nil // no answer at all
	}
	return strings.HasPrefix(answered.Code, "57P") || strings.HasPrefix(answered.Code, "08")
}

// told sums up what became of each way's writes.
func told(all []scribbler) string {
	var b strings.Builder
	for _, w := range all {
		fmt.Fprintf(&b, "%s/%s %d+%d-%d ", w.side.writer, w.how, w.tally.accepted.Load(), w.tally.refused.Load(), w.tally.lost.Load())
	}
	return b.String() + "(accepted+refused-lost)"
}

// wantEveryWay fails where some way never wrote, or was never refused: it would have
// shown nothing.
func wantEveryWay(t *testing.T, all []scribbler) {
	t.Helper()
	for _, w := range all {
		if w.how != "unfresh" && w.tally.accepted.Load() == 0 || w.tally.refused.Load() == 0 {
			t.Errorf("%s of %s: %d accepted, %d refused", w.how, w.side.writer, w.tally.accepted.Load(), w.tally.refused.Load())
		}
		if w.how == "unfresh" && w.tally.accepted.Load() > 0 {
			t.Errorf("%d writes of %s under REPEATABLE READ were accepted", w.tally.accepted.Load(), w.side.writer)
		}
	}
}
