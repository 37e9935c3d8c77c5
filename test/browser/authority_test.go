package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"briefrail/internal/authority"
	"briefrail/internal/frames"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// adoption is a ledger beside an old writer, a part of whose buckets has crossed.
type adoption struct {
	*pgtest.DB
	*testing.T
	c    authority.Controller
	home string
	next int // of the buckets, the one that crosses next

	crossed, aborted, closing rail.UUID
}

const brief = `{"n":1}`

func newAdoption(t *testing.T) *adoption {
	t.Helper()
	a := &adoption{DB: pgtest.New(t), T: t}
	a.c = authority.Controller{DB: a.Pool, Actor: authority.Actor{Name: "ada", Reason: "the rail is adopted, bucket by bucket"}}
	a.home = serve(t, []string{"RAIL_DATABASE_URL=" + a.DSN}, "console", "--open-less")
	return a
}

// configure names the old writer, who keeps its Briefs in a table of its own. Both act
// under the test's role.
func (a *adoption) configure() {
	a.Helper()
	a.exec(`CREATE TABLE public.legacy_briefs (matter_id uuid PRIMARY KEY, firm_id uuid NOT NULL, revision bigint NOT NULL)`)
	a.exec(`CREATE INDEX ON public.legacy_briefs (ops.matter_bucket(matter_id), revision)`)
	var me string
	a.must(a.Pool.QueryRow(a.Context(), `SELECT current_user::text`).Scan(&me))
	endpoint := "https://briefs.example/legacy"
	for _, w := range []authority.Writer{
		{Name: "rail", Kind: "rail", Roles: []string{me}},
		{Name: "needs-rebuild", Kind: "external", Roles: []string{me}, Importer: &me, Endpoint: &endpoint},
	} {
		a.must(a.c.RegisterWriter(a.Context(), w))
	}
	var scopes []string
	for b := range rail.Buckets {
		scopes = append(scopes, bucket(b))
	}
	_, err := a.c.Configure(a.Context(), scopes, "needs-rebuild")
	a.must(err)
	a.must(a.c.Guard(a.Context(), authority.Guard{Table: "public.legacy_briefs", Key: "matter_id", Writer: "needs-rebuild", Sequence: "revision"}))
}

func bucket(b int) string { return fmt.Sprintf("matters/bucket-%02d", b) }

func (a *adoption) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *adoption) exec(sql string, args ...any) {
	a.Helper()
	_, err := a.Pool.Exec(a.Context(), sql, args...)
	a.must(err)
}

func (a *adoption) digest() [32]byte {
	a.Helper()
	checked, err := frames.Check([]byte(brief), 1<<10)
	a.must(err)
	return checked.Digest
}

// matter is one of a bucket, whose Brief the old writer has decided and the importer
// brought in.
func (a *adoption) matter(b int) rail.Key {
	a.Helper()
	k := rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	for rail.Bucket(k.Matter) != b {
		k.Matter = rail.NewUUID()
	}
	a.exec(`INSERT INTO public.legacy_briefs VALUES ($1, $2, 7)`, k.Matter, k.Firm)
	_, err := authority.Import(a.Context(), a.Pool, authority.Imported{Key: k, Sequence: 7, Frame: []byte(brief), Digest: a.digest(), SchemaVersion: "1", Builder: "needs-rebuild"})
	a.must(err)
	return k
}

// planned is a change of the next bucket that may close, of two matters.
func (a *adoption) planned() (rail.UUID, authority.Heads) {
	a.Helper()
	b := a.next
	a.next++
	digest := a.digest()
	heads := []authority.Head{}
	for range 2 {
		heads = append(heads, authority.Head{Key: a.matter(b), Revision: 7, Digest: digest[:]})
	}
	m := authority.Move{Change: rail.NewUUID(), Scope: bucket(b), To: "rail", Deadline: 30 * time.Minute, Budget: time.Minute}
	_, err := a.c.Plan(a.Context(), m)
	a.must(err)
	a.shadowed(m.Change)
	return m.Change, func(context.Context, string, int64) ([]authority.Head, error) { return heads, nil }
}

func (a *adoption) shadowed(id rail.UUID) {
	a.Helper()
	_, _, err := a.c.Shadow(a.Context(), id, authority.ShadowOptions{Build: func(context.Context, rail.Key) (authority.ShadowFrame, error) {
		return authority.ShadowFrame{JSON: []byte(brief), Digest: a.digest(), SchemaVersion: "1", Builder: "rail"}, nil
	}})
	a.must(err)
}

func (a *adoption) cross() rail.UUID {
	a.Helper()
	id, heads := a.planned()
	ch, err := a.c.Cross(a.Context(), id, heads)
	if err != nil || ch.Outcome != "advanced" {
		a.Fatalf("%+v, %v", ch, err)
	}
	return id
}

// play has some buckets cross, one be refused with what was found, and one stand closed
// while somebody is in its way.
func (a *adoption) play() {
	a.Helper()
	for range 5 {
		a.crossed = a.cross()
	}
	id, heads := a.planned()
	_, err := a.c.Cross(a.Context(), id, func(ctx context.Context, scope string, upTo int64) ([]authority.Head, error) {
		theirs, err := heads(ctx, scope, upTo)
		theirs[0].Revision++
		return theirs, err
	})
	if a.aborted = id; !errors.Is(err, authority.ErrBlocked) {
		a.Fatal(err)
	}
	a.closing, _ = a.planned()
	a.inTheWay(bucket(a.next-1), "nightly-export")
	for _, step := range []func(context.Context, rail.UUID) (authority.Change, error){a.c.Close, a.c.Drain} {
		_, err := step(a.Context(), a.closing)
		a.must(err)
	}
	a.exec(`SELECT ops.raise_hold($1, 'late_facts', '{"value": 3}')`, bucket(2))
}

// inTheWay holds a transaction of the old writer open until the test ends.
func (a *adoption) inTheWay(scope, application string) {
	a.Helper()
	tx, err := a.Pool.Begin(a.Context())
	a.must(err)
	a.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(a.Context())) }) // or the pool's end does it
	_, err = tx.Exec(a.Context(), `SELECT set_config('application_name', $1, true)`, application)
	a.must(err)
	_, err = tx.Exec(a.Context(), `SELECT ops.admit($1, 'needs-rebuild', NULL)`, scope)
	a.must(err)
}

func scopeAt(scope string) string { return "scope?of=" + url.QueryEscape(scope) }

func changeAt(id rail.UUID) string { return "change?of=" + id.String() }

func TestAuthority(t *testing.T) {
	browser := find(t)
	a := newAdoption(t)
	t.Run("nobody but the rail", func(t *testing.T) { nobodyElse(newTab(t, browser, a.home, 1100)) })
	a.configure()
	a.play()
	t.Run("followed live", func(t *testing.T) { followed(a, newTab(t, browser, a.home, 1100)) })
	alike(t, browser, a.home, a, map[string]func(*adoption, *tab){
		"what keeps a bucket":  keptBack,
		"by keyboard":          authorityByKeyboard,
		"without the script":   authorityWithoutScript,
		"pictures of the page": authorityPictures,
	})
	t.Run("on a narrow screen", func(t *testing.T) { authorityNarrow(a, newTab(t, browser, a.home, 400)) })
}

func nobodyElse(b *tab) {
	b.open("")
	b.until("the tab leads there", `(document.querySelector('nav a[href="authority"]')?.click(), !!document.querySelector("#standing"))`)
	b.shows("#standing", "The rail writes everything")
}

// followed is a crossing as somebody sees it who has the page open all the while.
func followed(a *adoption, b *tab) {
	id, heads := a.planned()
	scope := bucket(a.next - 1)
	b.open("authority")
	b.shows("#standing", "5 of 64 buckets are written by the rail; 1 scope is closed just now")
	b.until("the bucket leads to its scope", fmt.Sprintf(`(document.querySelector('[data-key="b-%s"]')?.click(), !!document.querySelector("#next"))`, scope[len(scope)-2:]))
	b.shows("#next .verb", "railctl authority cross "+id.String())
	b.until("the change is opened", fmt.Sprintf(`(document.querySelector('[data-key="c-%s"]')?.click(), !!document.querySelector("#phases"))`, id))
	b.shows("#row .stamp", "SHADOWED")
	b.shows("#pause", "nobody had to wait yet")
	unmoved := b.marked()
	_, err := a.c.Close(a.Context(), id)
	a.must(err)
	b.shows("#row .stamp", "CLOSING")
	b.shows("#pause", "it lasts")
	b.shows("#row", "taken back, unless it is open by then")
	_, err = a.c.Cross(a.Context(), id, heads)
	a.must(err)
	b.shows("#row .stamp", "ADVANCED")
	b.shows(`#phases li[aria-current="step"]`, "open to the new writer, under epoch 2")
	b.shows("#reports", "passed")
	b.shows("#way-back", "old_side_ready: not met")
	b.until("the parts of the pause are drawn", `document.querySelectorAll("svg .part").length === 5`)
	unmoved()
	b.open("authority")
	b.shows("#standing", "6 of 64 buckets are written by the rail")
}

func keptBack(a *adoption, b *tab) {
	b.open(changeAt(a.closing))
	b.shows("#blockers", "nightly-export")
	b.shows("#next .verb", "railctl authority cross "+a.closing.String())
	b.open(changeAt(a.aborted))
	b.shows("#reports", "revision 7 here, 8 there")
	b.until("the finding leads to its matter", `(document.querySelector("#reports a.id")?.click(), !!document.querySelector("#timeline"))`)
	b.open(scopeAt(bucket(2)))
	b.shows("#standing", "late_facts")
}

func authorityByKeyboard(a *adoption, b *tab) {
	b.open("authority")
	b.tabTo(`[data-key="b-02"]`)
	b.press(kb.Enter)
	b.shows("#standing", "late_facts")
	b.tabTo(`#changes a.id`)
	b.press(kb.Enter)
	b.shows("#row .stamp", "ADVANCED")
}

func authorityWithoutScript(a *adoption, b *tab) {
	b.unscripted()
	b.open(changeAt(a.crossed))
	b.shows("#row .stamp", "ADVANCED")
	b.click("refresh")
	b.shows("#row .stamp", "ADVANCED")
}

func authorityPictures(a *adoption, b *tab) {
	b.picture("authority", "authority")
	b.picture("change", changeAt(a.crossed))
}

func authorityNarrow(a *adoption, b *tab) {
	for _, place := range []string{"authority", scopeAt(bucket(2)), scopeAt("system"), changeAt(a.crossed), changeAt(a.aborted), changeAt(a.closing)} {
		b.fits(place)
	}
}
