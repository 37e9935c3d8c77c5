package console

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"briefrail/internal/pg"
	"briefrail/internal/web"
)

// DB is what the console needs of a database: *pgxpool.Pool.
type DB interface {
	pg.DB
	pg.Beginner
}

// Options of a console. DB and Host have to be given; what is zero otherwise takes
// the default.
type Options struct {
	DB DB
	// Host decides by which names, without port, the console may be asked for.
	Host func(name string) bool
	// Local decides by which of those names a browser comes without TLS: the
	// session's cookie is kept from plain HTTP by any other. Nil: by none.
	Local func(name string) bool
	// Token is the secret of those who may act; without it nobody can log in, and
	// nothing can be changed.
	Token string
	// Closed asks for a login before anything is shown.
	Closed bool
	// ShowContent shows the content of frames, which quotes documents.
	ShowContent bool
	// Explorer, when set, is served below model/.
	Explorer http.Handler
	// Every is the interval of looks; zero means 2 s.
	Every time.Duration
	// Timeout bounds the questions of one look; zero means 5 s.
	Timeout time.Duration
	// Log is told of acts and of pages that fail; nil: nobody.
	Log *slog.Logger
}

// Console serves the pages. Handler works at once; Run makes them live.
type Console struct {
	opts     Options
	secret   [sha256.Size]byte // of the token
	places   map[string]place  // by the name in the address
	further  []tab
	pages    map[string]*template.Template
	looks    *looks
	watchers *watchers
	checks   *checks
	sessions *sessions
}

//go:embed *.html *.css console.js
var files embed.FS

// New makes a console.
func New(o Options) *Console {
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Local == nil {
		o.Local = func(string) bool { return false }
	}
	c := &Console{
		opts: o, secret: sha256.Sum256([]byte(o.Token)), looks: newLooks(o.Every, o.Timeout), watchers: newWatchers(),
		checks: newChecks(o.DB), sessions: newSessions(), pages: map[string]*template.Template{},
	}
	c.places, c.further = c.everyPlace(), c.furtherTabs()
	around := func(name string) bool { return name == "layout.html" || strings.HasPrefix(name, "part_") }
	layout := template.New("layout.html").Funcs(words())
	for _, name := range embedded(".html") {
		if around(name) {
			template.Must(layout.ParseFS(files, name))
		}
	}
	for _, name := range embedded(".html") {
		if !around(name) {
			c.pages[strings.TrimSuffix(name, ".html")] = template.Must(template.Must(layout.Clone()).ParseFS(files, name))
		}
	}
	return c
}

// Run looks again at what is being watched, and at the invariants while anybody asks
// for them, until ctx ends; it returns ctx's error.
func (c *Console) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.watch(ctx) })
	g.Go(func() error { return c.checks.run(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// Handler serves the pages below "/".
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.show)
	for name := range c.places {
		if name != "" {
			mux.HandleFunc("GET /"+name, c.show)
		}
	}
	mux.HandleFunc("GET /find", c.find)
	mux.HandleFunc("GET /live", c.live)
	mux.HandleFunc("GET /login", c.loginForm)
	mux.HandleFunc("POST /login", c.own(c.login))
	for path, act := range map[string]func(http.ResponseWriter, *http.Request, *session){
		"/matter": c.actOnMatter, "/parked": c.unparkMany, "/dispatch": c.pauseOrResume, "/outbox": c.replayParked, "/logout": c.logout,
	} {
		mux.HandleFunc("POST "+path, c.own(c.acting(act)))
	}
	for _, name := range embedded(".css") {
		mux.HandleFunc("GET /"+name, web.File(files, name, "text/css; charset=utf-8"))
	}
	mux.HandleFunc("GET /console.js", web.File(files, "console.js", "text/javascript; charset=utf-8"))
	if c.opts.Explorer != nil {
		mux.Handle("/model/", http.StripPrefix("/model", c.opts.Explorer))
	}
	mux.HandleFunc("/", c.nothing)
	return c.guarded(mux)
}

// embedded lists the embedded files of a kind.
func embedded(kind string) (names []string) {
	found, err := files.ReadDir(".")
	if err != nil {
		return nil // unreachable: the compiler has put them there
	}
	for _, f := range found {
		if strings.HasSuffix(f.Name(), kind) {
			names = append(names, f.Name())
		}
	}
	return names
}
