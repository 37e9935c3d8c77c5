package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var screenshot = flag.String("screenshot", "", "write a picture of the page into this `file`")

// patience is how long the page may take for anything.
const patience = 30 * time.Second

// find returns a browser, or skips.
func find(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("RAIL_TEST_BROWSER"); name != "" {
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	t.Skip("no browser: install chromium, or name one in RAIL_TEST_BROWSER")
	return ""
}

// build builds railctl from this checkout.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "railctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/railctl")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// serve starts a verb of railctl that serves pages, and returns their address.
func serve(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), build(t), args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("railctl: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("railctl prints no address: %v", err)
	}
	return strings.TrimSpace(address)
}

// tab is one page of a browser, and what it asked for and complained about.
type tab struct {
	*testing.T
	ctx  context.Context
	home string

	mu     sync.Mutex
	asked  []string
	errors []string
}

// newTab opens a browser of its own, of the given width. When the test ends, nothing
// must have left the page's own server, and nothing been complained about.
func newTab(t *testing.T, browser, home string, width int64) *tab {
	t.Helper()
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(browser))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // which Chromium refuses to be without
	}
	allocated, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	ctx, closeTab := chromedp.NewContext(allocated)
	b := &tab{T: t, ctx: ctx, home: home}
	t.Cleanup(func() {
		b.loyal()
		closeTab()
		stop()
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	command(b, runtime.Enable, cdp.Empty{})
	b.do(chromedp.EmulateViewport(width, 900))
	return b
}

// hear keeps what the browser tells.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *log.EventEntryAdded:
		if !strings.Contains(e.Entry.Text, "status of 400") { // of a page that is asked for on purpose
			b.errors = append(b.errors, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	}
}

// requests lists what was asked for so far.
func (b *tab) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// loyal checks that the page has kept to its own server.
func (b *tab) loyal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.asked {
		if !strings.HasPrefix(url, b.home) && url != "data:," && url != "about:blank" {
			b.Errorf("a request leaves the page: %s", url)
		}
	}
	if len(b.asked) == 0 {
		b.Error("no request was seen at all")
	}
	for _, text := range b.errors {
		b.Errorf("the browser complains: %s", text)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// command runs one command of the protocol.
func command[P, R any](b *tab, cmd cdp.Command[P, R], params P) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, cmd, params); err != nil {
		b.Fatal(err)
	}
}

// open goes to an address of the page.
func (b *tab) open(query string) {
	b.Helper()
	b.do(chromedp.Navigate(b.home+query), chromedp.WaitReady(chromedp.CSS("main")))
}

// click clicks what has the key.
func (b *tab) click(key string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(`[data-key="` + key + `"]`)))
}

// ask asks the page for a value; while it loads, it may not answer.
func ask[T any](b *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// eval is ask where the page stands still.
func eval[T any](b *tab, script string) T {
	b.Helper()
	value, err := ask[T](b, script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return value
}

// until waits for the page to say yes.
func (b *tab) until(what, script string) {
	b.Helper()
	end, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := ask[bool](b, script); err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("%q is not shown; the page says:\n%s", what, eval[string](b, "document.body.innerText"))
		}
	}
}

// shows waits for a text in a part of the page.
func (b *tab) shows(part, text string) {
	b.Helper()
	b.until(text, fmt.Sprintf("[...document.querySelectorAll(%s)].some(e => e.innerText.replace(/\\s+/g, ' ').includes(%s))", quoted(part), quoted(text)))
}

// step clicks the button of a step and waits until it has been taken.
func (b *tab) step(label string) {
	b.Helper()
	const find = "[...document.querySelectorAll('.offers button')].find(b => b.querySelector('.label').innerText === %s)?.dataset.key ?? ''"
	key := eval[string](b, fmt.Sprintf(find, quoted(label)))
	if key == "" {
		b.Fatalf("no button %q among\n%s", label, eval[string](b, "document.querySelector('#next').innerText"))
	}
	b.click(key)
	b.shows("#said", ": "+label)
}

// offers lists the buttons of the steps.
func (b *tab) offers() []string {
	b.Helper()
	return eval[[]string](b, "[...document.querySelectorAll('.offers .label')].map(e => e.innerText)")
}

// press presses keys.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the focus is on an element that can be seen to have it.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 80 {
		b.press(kb.Tab)
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%s)", quoted(selector))) {
			if eval[string](b, "getComputedStyle(document.activeElement).outlineStyle") == "none" {
				b.Errorf("%s has the focus and does not show it", selector)
			}
			return
		}
	}
	b.Fatalf("Tab never comes to %s", selector)
}

// quoted is a text as a script writes it.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // unreachable: every string can be written
	}
	return string(text)
}

// unscripted has the browser run no script any more.
func (b *tab) unscripted() {
	b.Helper()
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// fits holds that a page is no wider than the tab.
func (b *tab) fits(place string) {
	b.Helper()
	b.open(place)
	if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		b.Errorf("%q: the page is %d pixels too wide", place, over)
	}
}

// marked marks the page; unmoved holds that it was not loaded again since.
func (b *tab) marked() (unmoved func()) {
	b.Helper()
	eval[string](b, `document.body.dataset.same = "yes"`)
	return func() {
		b.Helper()
		if eval[string](b, `document.body.dataset.same ?? "no"`) != "yes" {
			b.Error("the page was loaded again: it did not follow live")
		}
	}
}

// shoot writes what the page looks like into a file, in daylight.
func (b *tab) shoot(width, height int64, file string) {
	b.Helper()
	light := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: light})
	b.do(chromedp.EmulateViewport(width, height))
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// alike runs tests of one scene, each in a browser of its own.
func alike[S any](t *testing.T, browser, home string, scene S, tests map[string]func(S, *tab)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(scene, newTab(t, browser, home, 1100)) })
	}
}

// zombie is the published trace: two writers, and the older one writes last.
func zombie() []string {
	return []string{
		"A claims (epoch 1)", "A dispatches", "A pauses, lease expires", "B claims (epoch 2)",
		"A marks ROUTED", "B's dispatch fails", "B resets to PENDING",
	}
}

func TestExplorer(t *testing.T) {
	browser := find(t)
	home := serve(t, nil, "model", "explore", "--open-less")
	for name, test := range map[string]func(*tab){
		"the zombie by clicking":       zombieByClicking,
		"the fence refuses the zombie": fenceRefuses,
		"a check plays the trace":      checkPlays,
		"by keyboard alone":            byKeyboard,
		"without the script":           withoutScript,
		"both sides at once":           bothSides,
		"a picture":                    picture,
	} {
		t.Run(name, func(t *testing.T) { test(newTab(t, browser, home, 1100)) })
	}
	t.Run("on a narrow screen", func(t *testing.T) { narrow(newTab(t, browser, home, 400)) })
}

func zombieByClicking(b *tab) {
	b.open("?model=router")
	b.click("turn-fence")
	b.until("fence off", `!!document.querySelector('[data-key="turn-fence"][aria-pressed="false"]')`)
	for _, label := range zombie() {
		b.step(label)
	}
	b.shows("#row .stub", "PENDING was ROUTED")
	b.shows("#row .broken", "Broken: ROUTED is final")
	b.shows(".trail", "breaks: ROUTED is final")
	link := eval[string](b, "location.href")
	b.click("undo")
	b.shows("#row .stub", "ROUTED")
	b.until("nothing is broken any more", "!document.querySelector('#row .broken')")
	b.click("restart")
	b.shows("#row .stub", "absent")
	b.open(strings.TrimPrefix(link, b.home))
	b.shows("#row .broken", "Broken: ROUTED is final")
	b.do(chromedp.NavigateBack())
	b.shows("#row .stub", "absent")
}

func fenceRefuses(b *tab) {
	b.open("?model=router")
	for _, label := range zombie()[:4] {
		b.step(label)
	}
	if slices.Contains(b.offers(), "A marks ROUTED") {
		b.Errorf("the zombie may mark: %q", b.offers())
	}
	b.step("A's mark is rejected")
	b.shows("#row .stub", "ROUTING")
	b.step("B's dispatch fails")
	b.step("B resets to PENDING")
	if eval[bool](b, "!!document.querySelector('#row .broken')") {
		b.Error("something is broken")
	}
}

func checkPlays(b *tab) {
	b.open("?model=router&without=fence")
	b.click("check")
	b.shows("#verdicts", "353 states, 938 transitions")
	b.shows("#verdicts", "broken ROUTED is final never, 12 bad shortest trace, 7 steps")
	b.shows("#said", "Step 7: B resets to PENDING") // it plays by itself
	b.shows("#row .broken", "Broken: ROUTED is final")
}

func byKeyboard(b *tab) {
	b.open("?model=router")
	b.tabTo(`[data-key="turn-fence"]`)
	b.press(" ")
	b.shows("#design", "fence off")
	b.tabTo(`[data-key="step-1"]`)
	b.press(kb.Enter)
	b.shows("#said", "Step 1: A claims (epoch 1)")
	b.press(kb.Enter) // the focus is on the first step again
	b.shows("#said", "Step 2: A dispatches")
	for _, label := range zombie()[2:] {
		b.press(fmt.Sprint(slices.Index(b.offers(), label) + 1))
		b.shows("#said", ": "+label)
	}
	b.shows("#row .broken", "Broken: ROUTED is final")
	b.press("u")
	b.shows("#said", "Step 6: B's dispatch fails")
	b.press("n")
	b.shows("#said", "Step 7: B resets to PENDING")
	b.press("r")
	b.shows("#said", "The initial state.")
}

func withoutScript(b *tab) {
	b.unscripted()
	b.open("?model=router&without=fence")
	for _, label := range zombie() {
		b.step(label)
	}
	b.shows("#row .broken", "Broken: ROUTED is final")
	b.click("check")
	b.shows("#said", "The initial state.")
	b.click("redo")
	b.shows("#said", "Step 1: A claims (epoch 1)")
	if slices.ContainsFunc(b.requests(), func(url string) bool { return strings.HasSuffix(url, "/explorer.js") }) {
		b.Error("the script was asked for")
	}
}

func bothSides(b *tab) {
	b.open("?model=router&without=fence&path=0.0.4.3.0.2.1")
	b.click("beside-with fence")
	b.shows("#beside", "They part at step 5.")
	b.shows("#beside .refused", "refused: A's mark is rejected")
	b.open("?model=batch&gate=first")
	for _, label := range []string{"enqueue flag-less", "enqueue flagged", "process batch"} {
		b.step(label)
	}
	b.shows("#row .broken", "no flagged record on the default path")
	b.click("beside-gate record")
	b.shows("#beside", "No property is broken here.")
}

func narrow(b *tab) {
	for _, query := range []string{
		"", "?model=router&without=fence&path=0.0.4.3.0.2.1&beside=fence&check=1", "?model=job&version=v1&path=0.1&check=1",
		"?model=ledger&path=0.0&check=1&beside=token", "?model=batch&path=0.1.2&beside=gate:first", "?model=" + strings.Repeat("x", 300),
	} {
		b.fits(query)
	}
	b.open("?model=router&without=fence")
	for _, label := range zombie() {
		b.step(label)
	}
	b.shows("#row .broken", "Broken: ROUTED is final")
}

// picture writes what people see first, if it is wanted.
func picture(b *tab) {
	b.open("?model=router&without=fence&path=0.0.4.3.0.2.1&beside=fence")
	if *screenshot == "" {
		return
	}
	b.shoot(960, 900, *screenshot)
}
