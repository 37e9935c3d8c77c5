package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"briefrail/internal/web"
)

// What is refused, in words for the person who reads it.
var (
	errReadOnly = errors.New("this console is read-only: start it with --token-file to act from it, or use railctl")
	errLogin    = errors.New("log in first")
	errOrigin   = errors.New("a change is taken only from the console's own pages")
	errSecret   = errors.New("the form is not of this session: load the page again")
	errToken    = errors.New("that is not the token")
	errName     = errors.New("say who you are: the name goes into the audit log with every change")
	errNothing  = errors.New("there is nothing at this address: go back to the start")
)

const (
	sessionLife  = 12 * time.Hour
	mostSessions = 100
	mostName     = 100 // characters of a name
)

// session is one login.
type session struct {
	Name   string
	Secret string // repeated by every form of the session
	ends   time.Time

	mu   sync.Mutex
	said string // shown by the next page, once
}

// say keeps a sentence for the next page.
func (s *session) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = text
}

// heard is what was kept, once.
func (s *session) heard() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.said
	s.said = ""
	return text
}

// sessions are the logins of this process, by their cookie; a restart ends them all.
type sessions struct {
	mu    sync.Mutex
	known map[string]*session
}

func newSessions() *sessions { return &sessions{known: map[string]*session{}} }

// begin opens a session and returns its cookie's value. Where there are too many,
// the one that ends first goes.
func (x *sessions) begin(name string) string {
	key := rand.Text()
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.known) >= mostSessions {
		first := ""
		for k, s := range x.known {
			if first == "" || s.ends.Before(x.known[first].ends) {
				first = k
			}
		}
		delete(x.known, first)
	}
	x.known[key] = &session{Name: name, Secret: rand.Text(), ends: time.Now().Add(sessionLife)}
	return key
}

// of is the session of a request, nil where it has none.
func (x *sessions) of(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.known[cookie.Value]
	if s == nil || time.Now().After(s.ends) {
		delete(x.known, cookie.Value)
		return nil
	}
	return s
}

func (x *sessions) end(s *session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, other := range x.known {
		if other == s {
			delete(x.known, k)
		}
	}
}

// cookieName has the port in it: a browser gives cookies of one machine to all its
// ports, and two consoles must not log each other out.
func cookieName(r *http.Request) string {
	_, port, _ := strings.Cut(r.Host[strings.LastIndexByte(r.Host, ']')+1:], ":")
	ok := !slices.ContainsFunc([]byte(port), func(b byte) bool { return b < '0' || b > '9' })
	if port == "" || !ok {
		return "rail_console"
	}
	return "rail_console_" + port
}

// cookie is the session's; a value of "" takes it back.
func (c *Console) cookie(r *http.Request, value string) *http.Cookie {
	k := &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: !c.opts.Local(web.Hostname(r.Host)),
	}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

func (c *Console) loginForm(w http.ResponseWriter, r *http.Request) {
	if c.opts.Token == "" {
		c.refuse(w, r, http.StatusForbidden, errReadOnly)
		return
	}
	c.write(w, r, http.StatusOK, "login", frame{Title: "Log in", View: !c.opts.Local(web.Hostname(r.Host))})
}

// login opens a session for whoever knows the token. It needs no brake: a token is
// long, and its comparison takes the same time whatever was typed.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSpace(plain(r.PostForm.Get("name")))
	given := sha256.Sum256([]byte(r.PostForm.Get("token")))
	switch {
	case subtle.ConstantTimeCompare(given[:], c.secret[:]) != 1:
		c.opts.Log.WarnContext(r.Context(), "a login with a wrong token was refused")
		c.refuse(w, r, http.StatusForbidden, errToken)
	case name == "" || len([]rune(name)) > mostName:
		c.refuse(w, r, http.StatusBadRequest, errName)
	default:
		http.SetCookie(w, c.cookie(r, c.sessions.begin(name)))
		redirect(w, "./")
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, s *session) {
	c.sessions.end(s)
	http.SetCookie(w, c.cookie(r, ""))
	redirect(w, "./")
}
