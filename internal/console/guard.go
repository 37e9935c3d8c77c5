package console

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"briefrail/internal/web"
)

// mostForm and mostQuery bound what is read of a request, in bytes.
const (
	mostForm  = 64 << 10
	mostQuery = 2048
)

// guarded sets the headers of every answer, refuses names that are not ours, and
// keeps a closed console closed.
func (c *Console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Guard(w.Header(), "same-origin") // without any, a browser hides a form's origin from us too
		if name := web.Hostname(r.Host); !c.opts.Host(name) {
			c.refuse(w, r, http.StatusForbidden, fmt.Errorf("the console does not answer to the name %q: use the address that was printed", clip(100, name)))
			return
		}
		if c.opts.Closed && !c.open(r) && c.sessions.of(r) == nil {
			if r.Method == http.MethodGet && r.URL.Path == "/" {
				redirect(w, "login")
				return
			}
			c.refuse(w, r, http.StatusForbidden, errLogin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// open reports whether a closed console answers it all the same: the way in.
func (c *Console) open(r *http.Request) bool {
	switch r.URL.Path {
	case "/login", "/console.css", "/console.js":
		return true
	}
	return false
}

// own lets a change through that comes from the console's own pages: a browser says
// where a form was, and what does not say so is no browser of ours.
func (c *Console) own(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c.opts.Token == "" {
			c.refuse(w, r, http.StatusForbidden, errReadOnly)
			return
		}
		origin, err := url.Parse(r.Header.Get("Origin"))
		site := r.Header.Get("Sec-Fetch-Site")
		if err != nil || origin.Host == "" || !strings.EqualFold(origin.Host, r.Host) || (site != "" && site != "same-origin") {
			c.refuse(w, r, http.StatusForbidden, errOrigin)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		if err := r.ParseForm(); err != nil {
			c.refuse(w, r, http.StatusBadRequest, fmt.Errorf("the form cannot be read: %w", err))
			return
		}
		next(w, r)
	}
}

// acting lets a change through that a session made, with the secret of that session
// in its form.
func (c *Console) acting(next func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessions.of(r)
		if s == nil {
			c.refuse(w, r, http.StatusForbidden, errLogin)
			return
		}
		if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("secret")), []byte(s.Secret)) != 1 {
			c.refuse(w, r, http.StatusForbidden, errSecret)
			return
		}
		next(w, r, s)
	}
}

// nothing answers what has no page.
func (c *Console) nothing(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		c.refuse(w, r, http.StatusMethodNotAllowed, fmt.Errorf("%s is not answered here", clip(20, r.Method)))
		return
	}
	c.refuse(w, r, http.StatusNotFound, errNothing)
}

// redirect leads to another page; relative, so that it holds wherever the console is
// mounted.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
