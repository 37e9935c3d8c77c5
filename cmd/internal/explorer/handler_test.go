package explorer_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"briefrail/cmd/internal/explorer"
	"briefrail/internal/model/specs"
)

// answer is what the page said.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask gets one address from a page of its own, redirects not followed.
func ask(t *testing.T, h http.Handler, method, host, target string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r.URL, r.Host = u, host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.Code, w.Result().Header, html.UnescapeString(string(body))}
}

func get(t *testing.T, target string) answer {
	t.Helper()
	return ask(t, explorer.Handler(explorer.Options{}), http.MethodGet, "127.0.0.1:8080", target)
}

// follow gets where a redirect leads.
func follow(t *testing.T, target string) answer {
	t.Helper()
	a := get(t, target)
	if a.status != http.StatusSeeOther {
		t.Fatalf("%s: status %d: %s", target, a.status, a.body)
	}
	return get(t, strings.TrimPrefix(a.header.Get("Location"), "."))
}

// words is the text of a page, its tags and its spaces dropped.
func words(a answer) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, " ")), " ")
}

func wants(t *testing.T, a answer, status int, texts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d", a.status, status)
	}
	for _, text := range texts {
		if !strings.Contains(words(a), text) {
			t.Errorf("no %q in\n%s", text, words(a))
		}
	}
}

// The zombie: A is paused, B claims, A comes back and marks.
const (
	zombie = "0.0.4.3.0.2.1"
	open   = "/?model=router&workers=2&faults=2&without=fence&path=" + zombie
)

func TestEveryModelHasAPage(t *testing.T) {
	t.Parallel()
	for _, e := range specs.List() {
		a := get(t, "/?model="+e.Name)
		wants(t, a, http.StatusOK, e.About, "The initial state.", "What may happen next")
		for _, s := range e.Switches {
			wants(t, a, http.StatusOK, s.Name+" on")
		}
		if n := strings.Count(a.body, `name="path"`); n == 0 {
			t.Errorf("%s: no step is a button", e.Name)
		}
	}
	wants(t, get(t, "/"), http.StatusOK, specs.List()[0].About)
}

func TestLinkReproducesAState(t *testing.T) {
	t.Parallel()
	wants(t, get(t, open), http.StatusOK,
		"status PENDING was ROUTED", "Broken: ROUTED is final", "7 B resets to PENDING breaks: ROUTED is final",
		"3 A pauses, lease expires fault", "Step 7: B resets to PENDING — status: ROUTED → PENDING",
		"railctl model check --model router --workers 2 --faults 2 --without fence")
	wants(t, get(t, open+"&at=1"), http.StatusOK, "status ROUTING was absent", "faults left 2", "7 B resets to PENDING")
	a := get(t, open+"&at=1")
	if !strings.Contains(a.body, `value="0.0"`) || strings.Contains(a.body, `value="`+zombie+`.0"`) {
		t.Error("a step must go on from where one stands, not from the end of the path")
	}
}

func TestFaultsAreMarkedInWords(t *testing.T) {
	t.Parallel()
	a := get(t, "/?model=router&path=0")
	for _, want := range []string{`class="fault" data-key="step-2"`, `data-key="step-1"><span`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in\n%s", want, a.body)
		}
	}
	wants(t, a, http.StatusOK, "2 A's dispatch fails fault", "1 A dispatches 2")
}

func TestTurningADefenceKeepsTheWay(t *testing.T) {
	t.Parallel()
	a := follow(t, open+"&at=7&turn=fence")
	wants(t, a, http.StatusOK, "fence on", "4 B claims (epoch 2)", "A's mark is rejected")
	if strings.Contains(words(a), "5 A marks") {
		t.Error("the path goes on where the step is refused")
	}
	wants(t, follow(t, "/?model=job&version=v0&path=0&turn=version:v2"), http.StatusOK, "job, 2 workers, 2 faults, v2", "A inserts")
}

func TestCheckPlaysTheShortestTrace(t *testing.T) {
	t.Parallel()
	a := follow(t, "/?model=router&without=fence&check=play")
	wants(t, a, http.StatusOK, "353 states, 938 transitions", "broken ROUTED is final never, 12 bad shortest trace, 7 steps", "The initial state.", "Next", "Stop")
	if !strings.Contains(a.body, `data-auto="1"`) || !strings.Contains(a.body, "at=1&play=1") {
		t.Error("the trace is not played")
	}
	a = follow(t, "/?model=router&path=0&check=play")
	wants(t, a, http.StatusOK, "301 states, 806 transitions", "holds ROUTED is final never", "Step 1: A claims (epoch 1)")
	wants(t, follow(t, "/?model=batch&gate=first&check=play"), http.StatusOK, "broken no flagged record on the default path", "shortest trace, 3 steps")
}

func TestSamePathBesideShowsTheRefusal(t *testing.T) {
	t.Parallel()
	wants(t, get(t, open+"&beside=fence"), http.StatusOK,
		"They part at step 5.", "without fence status PENDING", "with fence status PENDING",
		"5 A marks ROUTED ROUTED refused: A's mark is rejected ROUTING", "7 B resets to PENDING PENDING B resets to PENDING PENDING", "No property is broken here.")
	wants(t, get(t, "/?model=router&path=0.0.4&beside=lease"), http.StatusOK, "A pauses, lease expires fault ROUTING cannot happen ROUTING")
	wants(t, get(t, "/?model=batch&gate=first&path=0.1.2&beside=gate:record"), http.StatusOK,
		"Every step of the path is offered on both sides.", "gate first", "gate record", "Broken: no flagged record", "No property is broken here.")
	wants(t, get(t, "/?model=router&beside=fence"), http.StatusOK, "Take some steps first")
}

func TestBadAddressesAreExplained(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/?model=nothing":                                "no model \"nothing\"",
		"/?model=router&workers=99":                      "99 workers: give 1 to 8",
		"/?model=router&workers=-1":                      "workers=\"-1\": give a whole number from 1",
		"/?model=router&faults=x":                        "faults=\"x\"",
		"/?model=router&faults=-1":                       "faults=\"-1\"",
		"/?model=router&without=x":                       "no switch \"x\"",
		"/?model=router&version=v1":                      "no versions",
		"/?model=job&version=v9":                         "no version \"v9\"",
		"/?model=batch&workers=2":                        "no workers",
		"/?model=router&path=0.99":                       "step 2 of the path: choice 99",
		"/?model=router&path=0.x":                        "step 2 of the path is \"x\"",
		"/?model=router&path=-1":                         "step 1 of the path is \"-1\"",
		"/?model=router&path=99999999999999999999":       "step 1 of the path",
		"/?model=router&path=0&at=2":                     "at=2: the path has 1 steps",
		"/?path=" + strings.Repeat("0.", 150) + "0":      "at most 100",
		"/?path=" + strings.Repeat("0.", 1500) + "0":     "at most 2048 are read",
		"/?model=router&check=2":                         "check=\"2\"",
		"/?model=router&play=2":                          "play=\"2\"",
		"/?model=router&turn=x":                          "no switch \"x\"",
		"/?model=router&turn=gate:first":                 "no gates",
		"/?model=router&beside=x":                        "no switch \"x\"",
		"/?model=router&turn=fence&check=play":           "one at a time",
		"/?model=router&model=job":                       "more than once",
		"/?model=router&colour=red":                      "colour=, which the page does not know",
		"/?model=%zz":                                    "cannot be read",
		"/?model=router&turn=lease&path=0.99":            "choice 99",
		"/?model=router&path=0;at=1":                     "cannot be read",
		"/?model=router&demands=2":                       "no demands",
		"/?model=router&without=fence,fence,%00&path=0.": "no switch",
	} {
		wants(t, get(t, target), http.StatusBadRequest, want, "Back to the start")
	}
	wants(t, get(t, "/elsewhere"), http.StatusNotFound, "nothing at this address")
	a := ask(t, explorer.Handler(explorer.Options{}), http.MethodPost, "127.0.0.1", "/")
	wants(t, a, http.StatusMethodNotAllowed, "only read")
}

// What is typed into an address stays text.
func TestTextIsEscaped(t *testing.T) {
	t.Parallel()
	h := explorer.Handler(explorer.Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?model=%3Cscript%3Ealert(1)%3C/script%3E", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "<script>alert") {
		t.Error(w.Body.String())
	}
}

func TestForeignNamesAreRefused(t *testing.T) {
	t.Parallel()
	h := explorer.Handler(explorer.Options{})
	for host, want := range map[string]int{
		"127.0.0.1:80": 200, "127.8.9.1": 200, "localhost:1": 200, "[::1]:80": 200, "LOCALHOST": 200, "[::ffff:127.0.0.1]": 200,
		"evil.example:80": 403, "": 403, "10.0.0.1": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io:80": 403, "0.0.0.0": 403,
	} {
		if a := ask(t, h, http.MethodGet, host, "/"); a.status != want {
			t.Errorf("host %q: status %d, want %d", host, a.status, want)
		}
	}
	h = explorer.Handler(explorer.Options{Host: explorer.NoName})
	for host, want := range map[string]int{"10.0.0.1:80": 200, "[fe80::1]": 200, "evil.example": 403} {
		if a := ask(t, h, http.MethodGet, host, "/"); a.status != want {
			t.Errorf("listening anywhere, host %q: status %d, want %d", host, a.status, want)
		}
	}
}

func TestNothingComesFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, target := range []string{open + "&beside=fence&check=1", "/?model=nothing", "/explorer.css", "/explorer.js", "/elsewhere"} {
		a := get(t, target)
		if csp := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'; script-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", target, csp)
		}
		if strings.Contains(a.body, "://") || strings.Contains(a.body, "style=") || regexp.MustCompile(`\son[a-z]+="`).MatchString(a.body) {
			t.Errorf("%s: something from elsewhere, or inline", target)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", target, a.header)
		}
	}
}

func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	h := explorer.Handler(explorer.Options{MaxStates: 100})
	a := ask(t, h, http.MethodGet, "localhost", "/?model=router&without=fence&check=1")
	wants(t, a, http.StatusOK, "100 states", "Ended before its end", "open")
	h = explorer.Handler(explorer.Options{CheckTime: time.Nanosecond})
	if a := ask(t, h, http.MethodGet, "localhost", "/?model=router&workers=6&faults=100&check=1"); a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
		t.Errorf("status %d: %s", a.status, words(a))
	}
}

func TestMountedBelowAPath(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/models/", http.StripPrefix("/models", explorer.Handler(explorer.Options{})))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/models/?model=router&turn=fence", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Request.URL.String(); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, srv.URL+"/models/?model=router") {
		t.Errorf("status %d at %s", resp.StatusCode, got)
	}
}

// Whatever an address says, the answer is a page, another address, or an error that
// is the asker's.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "model=ledger&path=0.0.0&beside=token", "model=job&turn=version:v0&path=0", "model=batch&check=play", open[2:], "a;b", "without=,", "turn=:", "beside=gate:"} {
		f.Add(seed)
	}
	h := explorer.Handler(explorer.Options{MaxStates: 1000})
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host, r.URL.RawQuery = "localhost", query
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{http.StatusOK, http.StatusSeeOther, http.StatusBadRequest}, w.Code) {
			t.Errorf("status %d", w.Code)
		}
	})
}
