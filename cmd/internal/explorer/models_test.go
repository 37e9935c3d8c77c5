package explorer_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"briefrail/cmd/internal/explorer"
	"briefrail/internal/model/specs"
)

// Whatever models there are: a check without a defence plays its trace, and the same
// path can be seen beside the whole design, where nothing is broken.
func TestEveryDefenceCanBePlayedBeside(t *testing.T) {
	t.Parallel()
	h := explorer.Handler(explorer.Options{MaxStates: 4000})
	page := func(target string) answer { return ask(t, h, http.MethodGet, "localhost", target) }
	parted := 0
	for _, e := range specs.List() {
		for _, s := range e.Switches {
			a := page("/?model=" + e.Name + "&without=" + s.Name + "&check=play")
			if a.status != http.StatusSeeOther {
				t.Fatalf("%s without %s: status %d", e.Name, s.Name, a.status)
			}
			to := strings.TrimPrefix(a.header.Get("Location"), ".")
			at := regexp.MustCompile(`&at=0&play=1$`)
			if !at.MatchString(to) {
				continue // nothing is broken at these bounds
			}
			a = page(at.ReplaceAllString(to, "") + "&beside=" + s.Name)
			wants(t, a, http.StatusOK, "with "+s.Name)
			if _, beside, _ := strings.Cut(words(a), "The same path beside"); !strings.Contains(beside, "No property is broken here.") {
				t.Errorf("%s: with %s the path breaks something: %s", e.Name, s.Name, beside)
			}
			if strings.Contains(a.body, "They part at step") {
				parted++
			}
		}
	}
	if parted == 0 {
		t.Error("no defence ever refuses anything")
	}
}

// Somebody who presses any button again and again always gets a page, until the path
// is as long as it may be.
func TestAnyWayCanBeWalked(t *testing.T) {
	t.Parallel()
	h := explorer.Handler(explorer.Options{})
	button := regexp.MustCompile(`name="path" value="([0-9.]+)"[^>]* data-key="step`)
	random := rand.New(rand.NewPCG(1, 2))
	for i, e := range specs.List() {
		path, most := "", 30 // the work of a page grows with the square of the path
		if i == 0 {
			most = 101
		}
		for range most {
			a := ask(t, h, http.MethodGet, "localhost", "/?model="+e.Name+"&path="+path)
			if a.status != http.StatusOK {
				t.Fatalf("%s, path %s: status %d: %s", e.Name, path, a.status, words(a))
			}
			steps := button.FindAllStringSubmatch(a.body, -1)
			if len(steps) == 0 {
				wants(t, a, http.StatusOK, map[bool]string{true: "as long as this page follows", false: "this is an end"}[strings.Count(path, ".") == 99])
				break
			}
			path = steps[random.IntN(len(steps))][1]
		}
	}
}
