package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/console"
	"briefrail/internal/rail"
)

// changes are the routes that change something, each with a form that would.
func changes(k rail.Key) map[string]url.Values {
	return map[string]url.Values{
		"/matter":   {"of": {k.String()}, "verb": {"park"}, "why": {"attack"}},
		"/parked":   {"count": {"1"}, "why": {"attack"}},
		"/dispatch": {"verb": {"pause"}, "scope": {"all"}, "why": {"attack"}},
		"/outbox":   {"count": {"0"}, "why": {"attack"}},
		"/logout":   {},
	}
}

// read are the routes that show something.
func read(k rail.Key) []string {
	return []string{
		"/", of(k), "/runs", "/parked", "/parked?preview=1", "/dispatch", "/dispatch?verb=pause&scope=all", "/outbox", "/login",
		"/console.css", "/console.js", "/find?matter=" + k.Matter.String(), "/elsewhere", "/matter", "/content?of=" + k.String(),
	}
}

// untouched fails the test if anything was changed.
func (r *rig) untouched(what string) {
	r.t.Helper()
	if n := value[int](r, `SELECT (SELECT count(*) FROM ops.audit_log) + (SELECT count(*) FROM ops.dispatch_pauses)`); n != 0 {
		r.t.Fatalf("%s: %d rows were written", what, n)
	}
}

func TestNothingIsChangedWithoutAToken(t *testing.T) {
	r := newRig(t, func(o *console.Options) { o.Token = "" })
	k := newKey()
	r.demand(k)
	for path, form := range changes(k) {
		for _, token := range []string{"", token} {
			form.Set("token", token)
			form.Set("secret", "")
			a := r.send(http.MethodPost, path, form, "Origin", r.srv.URL, "Cookie", "rail_console="+token)
			wants(t, a, http.StatusForbidden, "this console is read-only")
		}
	}
	wants(t, r.post("/login", "name", "eve", "token", ""), http.StatusForbidden, "read-only")
	wants(t, r.get("/login"), http.StatusForbidden, "read-only")
	wants(t, r.get("/"), http.StatusOK, "read-only")
	r.untouched("without a token")
}

func TestNothingIsChangedByAnotherOrigin(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.demand(k)
	secret := r.login()
	host := strings.TrimPrefix(r.srv.URL, "http://")
	for path, form := range changes(k) {
		form.Set("secret", secret)
		for name, headers := range map[string][]string{
			"no origin":        nil,
			"null":             {"Origin", "null"},
			"another host":     {"Origin", "http://evil.example"},
			"another port":     {"Origin", "http://127.0.0.1:1"},
			"a name like ours": {"Origin", "http://" + host + ".evil.example"},
			"no url":           {"Origin", "http://%zz"},
			"another site":     {"Origin", r.srv.URL, "Sec-Fetch-Site", "cross-site"},
			"a sibling":        {"Origin", r.srv.URL, "Sec-Fetch-Site", "same-site"},
		} {
			if a := r.send(http.MethodPost, path, form, headers...); a.status != http.StatusForbidden {
				t.Errorf("%s from %s: status %d", path, name, a.status)
			}
		}
	}
	r.untouched("from another origin")
}

func TestNothingIsChangedWithoutASession(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.demand(k)
	for path, form := range changes(k) {
		for _, cookie := range []string{"", "rail_console=x", "rail_console=" + token} {
			form.Set("secret", token)
			wants(t, r.send(http.MethodPost, path, form, "Origin", r.srv.URL, "Cookie", cookie), http.StatusForbidden, "log in first")
		}
	}
	for _, wrong := range []string{"", "x", token + " ", strings.Repeat("a", 500)} {
		wants(t, r.post("/login", "name", "eve", "token", wrong), http.StatusForbidden, "not the token")
	}
	wants(t, r.post("/login", "name", " \x00\t", "token", token), http.StatusBadRequest, "say who you are")
	secret := r.login()
	for path, form := range changes(k) {
		for _, wrong := range []string{"", "x", secret[1:], strings.ToLower(secret)} {
			form.Set("secret", wrong)
			wants(t, r.send(http.MethodPost, path, form, "Origin", r.srv.URL), http.StatusForbidden, "not of this session")
		}
		form.Del("secret")
		// in the address a secret would stand in logs: there it does not count
		a := r.send(http.MethodPost, path+"?secret="+secret, form, "Origin", r.srv.URL)
		wants(t, a, http.StatusForbidden, "not of this session")
	}
	r.untouched("without a session")
}

func TestOnlyFormsChangeAnything(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.demand(k)
	secret := r.login()
	for path, form := range changes(k) {
		form.Set("secret", secret)
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW"} {
			if a := r.send(method, path, form, "Origin", r.srv.URL); a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, a.status)
			}
		}
		if a := r.get(path + "?" + form.Encode()); a.status == http.StatusSeeOther {
			t.Errorf("GET %s does something", path)
		}
	}
	for _, path := range []string{"/", "/runs", "/find", "/live", "/console.js", "/elsewhere"} {
		if a := r.send(http.MethodPost, path, url.Values{"secret": {secret}}, "Origin", r.srv.URL); a.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d", path, a.status)
		}
	}
	big := url.Values{"secret": {secret}, "why": {strings.Repeat("x", 100_000)}}
	wants(t, r.send(http.MethodPost, "/matter", big, "Origin", r.srv.URL), http.StatusBadRequest, "cannot be read")
	r.untouched("by other methods")
}

func TestForeignNamesAreRefused(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	for _, target := range append(read(k), "/live", "/model/") {
		for _, host := range []string{"evil.example", "127.0.0.1.nip.io", "localhost.evil.example:80"} {
			wants(t, r.send(http.MethodGet, target, nil, "Host", host), http.StatusForbidden, "does not answer to the name")
		}
	}
	wants(t, r.send(http.MethodPost, "/login", url.Values{"name": {"eve"}, "token": {token}}, "Host", "evil.example", "Origin", "http://evil.example"), http.StatusForbidden)
}

func TestNothingComesFromElsewhere(t *testing.T) {
	r := newRig(t, nil)
	k := r.zombie()
	r.login()
	for _, target := range read(k) {
		a := r.get(target)
		loyal(t, target, a)
		if strings.Contains(a.body, "://") {
			t.Errorf("%s: something from elsewhere", target)
		}
	}
}

// loyal fails the test where a page allows more than its own files, or has script or
// style in it.
func loyal(t *testing.T, target string, a answer) {
	t.Helper()
	csp := a.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'; script-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("%s: policy %q", target, csp)
	}
	if regexp.MustCompile(`="[a-z]*://|\sstyle="|\son[a-z]+="|<style|<script>`).MatchString(a.body) {
		t.Errorf("%s: something from elsewhere, or inline", target)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
	} {
		if a.header.Get(name) != want {
			t.Errorf("%s: %s is %q", target, name, a.header.Get(name))
		}
	}
}

func TestTheCookieIsTheBrowsersAlone(t *testing.T) {
	r := newRig(t, func(o *console.Options) {
		o.Host = func(name string) bool { return loopback(name) || name == "console.example" }
	})
	login := url.Values{"name": {"ada"}, "token": {token}}
	for host, secure := range map[string]bool{"127.0.0.1:81": false, "console.example": true} {
		a := r.send(http.MethodPost, "/login", login, "Host", host, "Origin", "https://"+host)
		cookies := (&http.Response{Header: a.header}).Cookies()
		if a.status != http.StatusSeeOther || len(cookies) != 1 {
			t.Fatalf("%s: status %d, %d cookies: %s", host, a.status, len(cookies), words(a))
		}
		if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != secure || len(c.Value) < 20 {
			t.Errorf("%s: %+v", host, c)
		}
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	r := newRig(t, nil)
	secret := r.login()
	u, err := url.Parse(r.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.Clone(r.client.Jar.Cookies(u))
	if a := r.post("/logout", "secret", secret); a.status != http.StatusSeeOther {
		t.Fatalf("status %d", a.status)
	}
	r.client.Jar.SetCookies(u, kept) // whoever copied it has nothing
	wants(t, r.post("/logout", "secret", secret), http.StatusForbidden, "log in first")
}

func TestAClosedConsoleShowsNothingBeforeALogin(t *testing.T) {
	r := newRig(t, func(o *console.Options) { o.Closed = true })
	k := r.zombie()
	for _, target := range append(read(k), "/live", "/model/") {
		a := r.get(target)
		switch target {
		case "/":
			if a.status != http.StatusSeeOther || a.header.Get("Location") != "login" {
				t.Errorf("status %d to %q", a.status, a.header.Get("Location"))
			}
		case "/login", "/console.css", "/console.js":
			wants(t, a, http.StatusOK)
		default:
			wants(t, a, http.StatusForbidden, "log in first")
		}
		if strings.Contains(a.body, k.Firm.String()) {
			t.Errorf("%s names a firm", target)
		}
	}
	r.login()
	wants(t, r.get(of(k)), http.StatusOK, "woke, wrote: refused")
}

// hostile is text that somebody hopes will be shown as it is.
func hostile() string {
	return `<script>alert(1)</script><img src=x onerror=alert(2)>"'` + "\u202egnp.exe\u2066\u200f\x1b[31m\u0085" + "{{.}}${7*7}" + strings.Repeat("W", 10_000)
}

func TestHostileTextIsHarmless(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.demand(k)
	r.claim(k, "worker"+hostile())
	r.force(`UPDATE ops.matter_frame_runs SET outcome = 'failed', finished_at = clock_timestamp(), late_write_at = clock_timestamp(), error_kind = $1, error_text = $1`, hostile())
	r.force(`UPDATE ops.matter_frame_jobs SET run_status = 'parked', run_id = NULL, claimed_at = NULL, lease_expires_at = NULL, queued_at = now(),
	  parked_by = 'failures', parked_reason = $1, last_error = $1`, hostile())
	r.exec(`INSERT INTO ops.dispatch_pauses (paused_by, reason) VALUES ($1, $1)`, hostile())
	r.exec(`SELECT ops.audit($1, $1, $2, $1)`, hostile(), k.String())
	r.exec(`INSERT INTO ops.outbox_relays (relay, name, expires_at) VALUES (gen_random_uuid(), left($1, 200), now() + interval '1 hour')`, hostile())
	for _, target := range []string{
		"/", of(k), "/runs", "/parked", "/dispatch", "/outbox", "/runs?worker=" + url.QueryEscape("worker"+hostile()[:100]),
		"/runs?outcome=" + url.QueryEscape(hostile()[:100]), "/parked?reason=" + url.QueryEscape(hostile()[:100]), "/find?matter=" + url.QueryEscape(hostile()[:100]),
		"/" + url.PathEscape(hostile()[:100]), "/matter?of=" + url.QueryEscape(hostile()[:100]), "/parked?" + url.QueryEscape(hostile()[:100]) + "=1",
	} {
		tame(t, target, r.get(target))
	}
	wants(t, r.get(of(k)), http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt;", "[U&#43;202E]gnp.exe[U&#43;2066][U&#43;200F]")
}

// tame fails the test where text of the ledger stands in a page as it is, or at length.
func tame(t *testing.T, target string, a answer) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img", "\u202e", "\u2066", "\u200f", "\x1b", "\u0085", `onerror=alert(2)>"`, "ZgotmplZ", strings.Repeat("W", 1000)} {
		if strings.Contains(a.body, bad) {
			t.Errorf("%.60s: %q is in the page", target, bad)
		}
	}
	if len(a.body) > 100_000 {
		t.Errorf("%.60s: %d bytes", target, len(a.body))
	}
}

func TestAReasonIsText(t *testing.T) {
	r := newRig(t, nil)
	secret := r.login()
	for why, want := range map[string]string{
		"": "say why", " \t\n": "say why", "\x00": "say why", strings.Repeat("x", 501): "at most 500",
	} {
		k := newKey()
		wants(t, r.post("/matter", "secret", secret, "of", k.String(), "verb", "demand", "why", why), http.StatusBadRequest, want)
	}
	k := newKey()
	if a := r.post("/matter", "secret", secret, "of", k.String(), "verb", "demand", "why", "bad \xff\xfe\x00 bytes\u202e <b>"); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, words(a))
	}
	if got := value[string](r, `SELECT reason FROM ops.audit_log`); got != "bad \ufffd  bytes[U+202E] <b>" {
		t.Errorf("the audit log has %q", got)
	}
}
