package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"briefrail/internal/pg"
)

// frame is everything around a page, and the page.
type frame struct {
	Title    string
	Of       string // what it is about, where the address says so
	Page     string // its name in the address; "" is the start
	View     any
	Session  *session
	Said     string // what an act just did
	Problem  string // the page says only this
	Armed    bool   // there is a token, so that one may log in
	Closed   bool
	Content  bool
	Explorer bool
	Further  []tab
	Live     string // the address to watch; "" for none
}

// Secret is the field that every form of a session repeats.
func (f frame) Secret() string {
	if f.Session == nil {
		return ""
	}
	return f.Session.Secret
}

// show answers a page that is read.
func (c *Console) show(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	p := c.places[name]
	q, err := p.parse(r.URL.RawQuery)
	if err != nil {
		c.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	c.checks.want()
	key := name + "?" + q.Encode()
	l := c.looks.at(r.Context(), key, false, func(ctx context.Context) (any, error) { return p.read(ctx, q) })
	if l.err != nil {
		c.failed(w, r, l.err)
		return
	}
	template := name
	if name == "" {
		template = "now"
	}
	c.write(w, r, http.StatusOK, template, frame{Title: p.title, Of: clip(100, q.Get("of")), Page: name, View: l.view, Live: live(key)})
}

// live is the address of a look, as a page watches it.
func live(key string) string { return strings.TrimSuffix(key, "?") }

// failed tells that a page could not be read, or an act not be done.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) {
	var mistake wrong
	status := http.StatusServiceUnavailable
	switch {
	case errors.As(err, &mistake):
		status = http.StatusBadRequest
	case errors.Is(err, errGone):
		status = http.StatusNotFound
	case errors.Is(err, errRefused):
		status = http.StatusConflict
	case errors.Is(err, errBusy):
	case errors.Is(err, pg.ErrUnknownOutcome):
		err = errors.New("whether it was committed is not known: look at the page again before acting once more")
	case r.Context().Err() != nil:
		return // nobody is left, or the program ends
	default:
		c.opts.Log.WarnContext(r.Context(), "a page failed", slog.String("path", clip(100, r.URL.Path)), slog.String("error", pg.Text(err, 300)))
		err = errors.New("the database did not answer this: " + pg.Text(err, 300))
	}
	c.refuse(w, r, status, err)
}

// refuse answers with a page that says what is wrong.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	c.write(w, r, status, "plain", frame{Title: http.StatusText(status), Problem: clip(500, err.Error()), Page: "-"})
}

// write fills the page before the first byte goes out.
func (c *Console) write(w http.ResponseWriter, r *http.Request, status int, name string, f frame) {
	f.Session = c.sessions.of(r)
	f.Armed, f.Closed, f.Content, f.Explorer = c.opts.Token != "", c.opts.Closed, c.opts.ShowContent, c.opts.Explorer != nil
	f.Further = c.further
	if f.Problem == "" && r.Header.Get("X-Console-Part") == "" {
		f.Said = f.Session.heard()
	}
	var b bytes.Buffer
	if err := c.pages[name].Execute(&b, f); err != nil {
		c.opts.Log.ErrorContext(r.Context(), "a page could not be drawn", slog.String("page", name), slog.String("error", err.Error()))
		http.Error(w, "the page could not be drawn", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the browser may have gone
}
