package authority_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/model"
	"briefrail/internal/model/specs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// edge is a step of the model.
type edge struct {
	act specs.AuthorityAct
	to  specs.AuthorityState
}

// twin is one scope of the real database that takes the model's steps.
type twin struct {
	*pgtest.DB
	scope   string
	sides   [2]string // the writers' names, each with a table of that name
	control *pgxpool.Conn
	writers []*pgxpool.Conn
	changes []rail.UUID // by the model's numbers, less one
}

// Every step that the model can take in its smallest configuration is taken by the real
// functions and triggers, from the same state, and leads to the same fence, epoch,
// change, and count of accepted writes.
func TestTheDatabaseConformsToTheModel(t *testing.T) {
	t.Parallel()
	m, err := specs.Authority(specs.Options{Workers: 1, Demands: 1, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := func(s specs.AuthorityState) (out []edge) {
		m.Next(s, func(a specs.AuthorityAct, to specs.AuthorityState) { out = append(out, edge{a, to}) })
		return out
	}
	db, met, steps, scopes := pgtest.New(t), map[specs.AuthorityState]map[specs.AuthorityAct]bool{}, 0, 0
	ways := waysFrom(m.Initial, next)
	far := slices.SortedFunc(maps.Keys(ways), func(a, b specs.AuthorityState) int { return ways[b].steps - ways[a].steps })
	for _, from := range far {
		for slices.ContainsFunc(next(from), func(e edge) bool { return !met[from][e.act] }) {
			w := newTwin(t, db, 1)
			steps += w.follow(t, m.Initial, ways.to(from), next, met)
			scopes++
			w.close(t)
		}
	}
	t.Logf("%d states, %d edges, %d steps in %d scopes of PostgreSQL", len(ways), edges(met), steps, scopes)
}

// A write that is refused at its commit takes a fault: whoever drains gives up waiting
// for it. Wherever the model has it refused then, through two changes, there and back,
// the triggers refuse it.
func TestTheDatabaseRefusesWhereTheModelDoes(t *testing.T) {
	t.Parallel()
	m, err := specs.Authority(specs.Options{Workers: 1, Demands: 1, Attempts: 2, Faults: 2})
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		fence specs.Fence
		phase specs.Phase
		epoch uint8
	}
	next := func(s specs.AuthorityState) []edge { return replayable(m, s) }
	db, ways, refused := pgtest.New(t), waysFrom(m.Initial, next), map[place]bool{}
	near := slices.SortedFunc(maps.Keys(ways), func(a, b specs.AuthorityState) int { return ways[a].steps - ways[b].steps })
	for _, from := range near {
		for _, e := range next(from) {
			at := place{from.Fence, from.Change.Phase, from.Writers[0].Epoch}
			if at.fence.Final = 0; e.act.Kind != specs.AuthorityRefused || refused[at] {
				continue
			}
			refused[at] = true
			w, s := newTwin(t, db, 1), m.Initial
			for _, e := range append(ways.to(from), e) {
				if err := w.step(t.Context(), s, e); err != nil {
					t.Fatalf("%v in %+v: %v", e.act, s, err)
				}
				s = e.to
			}
			w.close(t)
		}
	}
	t.Logf("%d states; refused at %d places: %+v", len(ways), len(refused), slices.Collect(maps.Keys(refused)))
	for _, p := range []place{
		{specs.Fence{Epoch: 1, State: specs.FenceSealed}, specs.PhaseSealed, 1},
		{specs.Fence{Epoch: 2, Writer: specs.SideNew}, specs.PhaseAdvanced, 1},
		{specs.Fence{Epoch: 3, Writer: specs.SideOld}, specs.PhaseAdvanced, 1},
	} {
		if !refused[p] {
			t.Errorf("nothing is refused at %+v", p)
		}
	}
}

// replayable are the steps from a state that mean something here.
func replayable(m model.Model[specs.AuthorityState, specs.AuthorityAct], s specs.AuthorityState) (out []edge) {
	m.Next(s, func(a specs.AuthorityAct, to specs.AuthorityState) {
		switch {
		case a.Kind == specs.AuthorityBegins: // its epoch is the model's alone: docs/MODEL.md
		case a.Kind == specs.AuthorityRetires && s.Change.Phase == specs.PhasePlanned: // stricter here
		default:
			out = append(out, edge{a, to})
		}
	})
	return out
}

// Walks at random through two changes, there and back, with a fault.
func TestTheDatabaseConformsOnRandomWalks(t *testing.T) {
	t.Parallel()
	m, err := specs.Authority(specs.Options{Workers: 2, Demands: 1, Attempts: 2, Faults: 1})
	if err != nil {
		t.Fatal(err)
	}
	db, seed := pgtest.New(t), rand.Uint64()
	random, steps, kinds := rand.New(rand.NewPCG(seed, 0)), 0, map[string]int{}
	for range crossingsWanted() / 10 {
		w, s := newTwin(t, db, 2), m.Initial
		for range 60 {
			out := replayable(m, s)
			if len(out) == 0 {
				break
			}
			e := out[random.IntN(len(out))]
			if err := w.step(t.Context(), s, e); err != nil {
				t.Fatalf("seed %d, %v in %+v: %v", seed, e.act, s, err)
			}
			s, steps = e.to, steps+1
			kinds[e.act.Kind.String()]++
		}
		w.close(t)
	}
	t.Logf("%d steps in PostgreSQL: %v", steps, kinds)
}

// ways are shortest ways to states: the last step of each, and how many there are.
type ways map[specs.AuthorityState]way

type way struct {
	from  specs.AuthorityState
	by    edge
	steps int
}

// waysFrom are those to every state that can be reached.
func waysFrom(initial specs.AuthorityState, next func(specs.AuthorityState) []edge) ways {
	found, queue := ways{initial: {}}, []specs.AuthorityState{initial}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, e := range next(s) {
			if _, known := found[e.to]; !known {
				found[e.to] = way{s, e, found[s].steps + 1}
				queue = append(queue, e.to)
			}
		}
	}
	return found
}

// to is the way to a state, step by step.
func (w ways) to(s specs.AuthorityState) []edge {
	path := make([]edge, w[s].steps)
	for i := len(path) - 1; i >= 0; i-- {
		path[i], s = w[s].by, w[s].from
	}
	return path
}

func edges(met map[specs.AuthorityState]map[specs.AuthorityAct]bool) (n int) {
	for acts := range maps.Values(met) {
		n += len(acts)
	}
	return n
}

// follow takes a path, and then whatever was not met before for as long as there is any.
func (w *twin) follow(t *testing.T, s specs.AuthorityState, path []edge, next func(specs.AuthorityState) []edge, met map[specs.AuthorityState]map[specs.AuthorityAct]bool) (steps int) {
	t.Helper()
	for ; ; steps++ {
		if met[s] == nil {
			met[s] = map[specs.AuthorityAct]bool{}
		}
		out := next(s)
		i := slices.IndexFunc(out, func(e edge) bool { return !met[s][e.act] })
		if i < 0 && len(path) == 0 {
			return steps
		}
		var e edge
		if len(path) > 0 {
			e, path = path[0], path[1:]
		} else {
			e = out[i]
		}
		met[s][e.act] = true
		if err := w.step(t.Context(), s, e); err != nil {
			t.Fatalf("%v in %+v: %v", e.act, s, err)
		}
		s = e.to
	}
}

func newTwin(t *testing.T, db *pgtest.DB, writers int) *twin {
	t.Helper()
	name := "t" + rail.NewUUID().String()[:8]
	w := &twin{DB: db, scope: "fixture/" + name, sides: [2]string{name + "_old", name + "_new"}}
	for range writers + 1 {
		conn, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.writers = append(w.writers, conn)
	}
	w.control, w.writers = w.writers[writers], w.writers[:writers]
	for i, side := range w.sides {
		exec(t, db.Pool, `SELECT ops.register_writer($1, 'external', ARRAY[current_user::text], NULL, NULL, 't', 't')`, side)
		if i == 0 {
			exec(t, db.Pool, `SELECT ops.configure_fences(ARRAY[$1], $2, 't', 't')`, w.scope, side)
		}
		exec(t, db.Pool, `CREATE TABLE public.`+side+` (id bigint GENERATED ALWAYS AS IDENTITY)`)
		exec(t, db.Pool, `SELECT ops.guard_table(('public.' || $1)::regclass, NULL, $2, $1, 'id', NULL, 't', 't')`, side, w.scope)
	}
	return w
}

func (w *twin) close(t *testing.T) {
	for _, conn := range append(w.writers, w.control) {
		_, _ = conn.Exec(context.WithoutCancel(t.Context()), `ROLLBACK`) // whatever is open there is not wanted
		conn.Release()
	}
}

// step takes one, and compares what is there then.
func (w *twin) step(ctx context.Context, s specs.AuthorityState, e edge) error {
	if err := w.take(ctx, s, e); err != nil {
		return err
	}
	f, err := authority.FenceOf(ctx, w.control, w.scope)
	if err != nil {
		return err
	}
	got := fmt.Sprintf("%s %s %d", f.State, f.Writer, f.Epoch)
	if want := fmt.Sprintf("%s %s %d", e.to.Fence.State, w.sides[e.to.Fence.Writer], e.to.Fence.Epoch); got != want {
		return fmt.Errorf("the fence is %s, want %s", got, want)
	}
	var rows uint8
	if err := w.control.QueryRow(ctx, `SELECT (SELECT count(*) FROM public.`+w.sides[0]+`) + (SELECT count(*) FROM public.`+w.sides[1]+`)`).Scan(&rows); err != nil {
		return err
	}
	if rows != e.to.Committed {
		return fmt.Errorf("%d rows, want %d", rows, e.to.Committed)
	}
	if e.to.Change.ID == 0 {
		return nil
	}
	ch, err := authority.ChangeOf(ctx, w.control, w.changes[e.to.Change.ID-1])
	if want := e.to.Change.Phase.String(); err == nil && !slices.Contains(inTheRow()[want], ch.Phase) {
		err = fmt.Errorf("the change is %s, want %s", ch.Phase, want)
	}
	return err
}

// inTheRow are the phases of the row for one of the model.
func inTheRow() map[string][]string {
	return map[string][]string{
		"planned": {"shadowed"}, "closing": {"closing"}, "drained": {"drained"}, "sealed": {"sealed", "verified"},
		"advanced": {"advanced", "completed"}, "aborted": {"aborted"},
	}
}

// take takes a step of a writer, or else of those who change.
func (w *twin) take(ctx context.Context, s specs.AuthorityState, e edge) error {
	run := func(sql string, args ...any) error {
		_, err := w.writers[e.act.Who].Exec(ctx, sql, args...)
		return err
	}
	side := w.sides[e.act.Who%2]
	switch e.act.Kind {
	case specs.AuthorityAdmits:
		if err := run(`BEGIN`); err != nil {
			return err
		}
		return run(`SELECT ops.admit($1, $2)`, w.scope, side)
	case specs.AuthorityWorks:
		return run(`INSERT INTO public.` + side + ` DEFAULT VALUES`)
	case specs.AuthorityChecks:
		return run(`SET CONSTRAINTS ALL IMMEDIATE`)
	case specs.AuthorityRefused:
		if err := run(`SET CONSTRAINTS ALL IMMEDIATE`); !slices.Contains([]string{"RF503", "RF409", "RF410"}, pg.SQLState(err)) {
			return fmt.Errorf("not refused: %w", err)
		}
		return run(`ROLLBACK`)
	case specs.AuthorityCommits:
		return run(`COMMIT`)
	case specs.AuthorityEnds, specs.AuthorityFails:
		return run(`ROLLBACK`)
	case specs.AuthorityAnswers: // from a receipt, which is no row of the fence's
		if s.Writers[e.act.Who].PC != specs.FencedIdle {
			return run(`ROLLBACK`)
		}
		return nil
	}
	return w.change(ctx, s, e)
}

// change takes a step of a controller, the watchdog or an operator.
func (w *twin) change(ctx context.Context, s specs.AuthorityState, e edge) error {
	do := func(sql string, args ...any) error {
		_, err := w.control.Exec(ctx, sql, args...)
		return err
	}
	id := func(n uint8) rail.UUID { return w.changes[n-1] }
	switch e.act.Kind {
	case specs.AuthorityPlans:
		w.changes = append(w.changes, rail.NewUUID())
		var back *rail.UUID
		if e.to.Change.To == specs.SideOld {
			back = w.lastAdvanced(ctx)
		}
		return do(`SELECT ops.plan_change($1, $2, $3, $4, '{"grace_ms": 1, "deadline_ms": 3600000}', '{}', 't', 't'), ops.shadow_change($1, '{}', 't', 't')`,
			id(e.to.Change.ID), w.scope, w.sides[e.to.Change.To], back)
	case specs.AuthorityReopens, specs.AuthorityTooLate:
		return do(`SELECT ops.abort_change($1, 't', 't')`, id(s.Watchdog))
	case specs.AuthorityCompletes:
		return do(`SELECT ops.complete_change($1, 't', 't')`, w.lastAdvanced(ctx))
	case specs.AuthorityRetires:
		return do(`SELECT ops.retire_writer($1, 't', 't')`, w.sides[0])
	case specs.AuthorityBlocks:
		return do(`SELECT ops.report_change($1, 0, sha256(''), '["x"]', '0')`, id(s.Controllers[e.act.Who].Change))
	case specs.AuthorityCloses, specs.AuthorityDrains, specs.AuthorityGraceOver, specs.AuthoritySeals, specs.AuthorityVerifies,
		specs.AuthorityAdvances, specs.AuthorityAborts, specs.AuthorityRepeats, specs.AuthorityLoses:
		c := s.Controllers[e.act.Who]
		sql := verbs()[c.PC]
		if sql == "" {
			return nil // an import, which is no verb of the fence
		}
		err := do(sql, id(c.Change))
		if late := e.act.Kind == specs.AuthorityLoses; late && pg.Constraint(err) == "change_window_closed" {
			return do(`SELECT ops.abort_change($1, 't', 't')`, id(c.Change)) // the model ends it with its refusal
		} else if late && pg.SQLState(err) == "RF422" {
			return nil
		}
		return err
	}
	return nil // known to nobody but who takes it: a controller's mind, a death, an import
}

func verbs() map[specs.ControllerPC]string {
	return map[specs.ControllerPC]string{
		specs.ControllerCloses:   `SELECT ops.close_scope($1, 't', 't')`,
		specs.ControllerDrains:   `SELECT ops.drain_scope($1)`,
		specs.ControllerSeals:    `SELECT ops.seal_scope($1)`,
		specs.ControllerVerifies: `SELECT ops.report_change($1, 0, sha256(''), '[]', '0')`,
		specs.ControllerAdvances: `SELECT ops.advance_scope($1, 't', 't')`,
		specs.ControllerAborts:   `SELECT ops.abort_change($1, 't', 't')`,
	}
}

// lastAdvanced is the change whose window is open.
func (w *twin) lastAdvanced(ctx context.Context) *rail.UUID {
	all, err := authority.Changes(ctx, w.control, w.scope, 100)
	i := slices.IndexFunc(all, func(c authority.Change) bool { return c.Phase == "advanced" })
	if err != nil || i < 0 {
		return nil
	}
	return &all[i].ID
}
