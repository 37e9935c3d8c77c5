package api_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"briefrail/client"
	"briefrail/internal/rail"
)

// sender is a client of some endpoints, with a short patience.
func sender(t *testing.T, drafts client.Drafts, attempts int, endpoints ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{
		Endpoints: endpoints, Drafts: drafts, Attempts: attempts, Backoff: time.Millisecond, Longest: 10 * time.Millisecond,
		Token: func(string) (string, error) { return forFirm, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) intent() client.Intent {
	return client.Intent{
		ID: client.NewID(), Firm: r.key.Firm.String(), Matter: r.key.Matter.String(), Kind: client.Regenerate, Payload: []byte("what a person wrote"),
	}
}

// kept is the draft as it is now: it is there whatever became of its intent.
func kept(t *testing.T, drafts client.Drafts, i client.Intent) client.Draft {
	t.Helper()
	d, err := drafts.Get(t.Context(), i.Matter, i.ID)
	if err != nil || string(d.Intent.Payload) != string(i.Payload) || d.Digest != i.Digest() {
		t.Fatalf("the draft is %+v, %v", d, err)
	}
	return d
}

func (r *rig) executes(t *testing.T, times int64) {
	t.Helper()
	if n := r.executed(t); n != times {
		t.Errorf("executed %d times, want %d", n, times)
	}
}

func TestClientWhoseIntentNeverArrived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w, drafts, i := newWire(t, r.url, firstPost(cutFirst)), &client.Memory{}, r.intent()
	receipt, err := sender(t, drafts, 5, w.url).Send(t.Context(), i)
	if err != nil || receipt.Outcome != "accepted" || receipt.Replayed || receipt.IntentID != i.ID {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	if w.passed() != "POST GET POST" || w.sent[0] != w.sent[1] {
		t.Errorf("passed %s: %q", w.passed(), w.sent)
	}
	r.executes(t, 1)
	if d := kept(t, drafts, i); d.Receipt == nil || d.Receipt.ResultDigest != receipt.ResultDigest {
		t.Errorf("the draft has no receipt: %+v", d)
	}
}

func TestClientWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w, drafts, i := newWire(t, r.url, firstPost(cutReply)), &client.Memory{}, r.intent()
	receipt, err := sender(t, drafts, 5, w.url).Send(t.Context(), i)
	if err != nil || receipt.Outcome != "accepted" {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	if w.passed() != "POST GET" {
		t.Errorf("passed %s: it was sent again", w.passed())
	}
	r.executes(t, 1)
	if again, err := sender(t, drafts, 5, w.url).Send(t.Context(), i); err != nil || again.ResultDigest != receipt.ResultDigest || w.passed() != "POST GET" {
		t.Errorf("what is decided is asked again: %v, %s", err, w.passed())
	}
}

// While nothing comes back the client says that it does not know, and no more.
func TestClientThatHearsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	silence := func(*http.Request) int { return cutReply }
	w, drafts, i := newWire(t, r.url, silence), &client.Memory{}, r.intent()
	c := sender(t, drafts, 4, w.url)
	_, err := c.Send(t.Context(), i)
	if lost := (*client.Lost)(nil); !errors.As(err, &lost) {
		t.Fatalf("got %v, want a lost reply", err)
	}
	if w.passed() != "POST GET GET GET" {
		t.Errorf("passed %s", w.passed())
	}
	if d := kept(t, drafts, i); !d.Sent || d.Receipt != nil {
		t.Errorf("the draft is %+v", d)
	}
	w.becomes(always)
	if receipt, err := c.Resume(t.Context(), i.Matter, i.ID); err != nil || receipt.Outcome != "accepted" || w.passed() != "POST GET GET GET GET" {
		t.Errorf("got %+v, %v after %s", receipt, err, w.passed())
	}
	r.executes(t, 1)
}

func TestClientWhoseDocumentChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.land(t)
	before := r.executed(t)
	w, drafts, i := newWire(t, r.url, always), &client.Memory{}, r.intent()
	saw := int64(0)
	i.Expected = &saw
	_, err := sender(t, drafts, 5, w.url).Send(t.Context(), i)
	conflict := (*client.Conflict)(nil)
	if !errors.As(err, &conflict) || conflict.Expected != 0 || conflict.Revision != 1 || conflict.Receipt.Outcome != "refused" || w.passed() != "POST" {
		t.Fatalf("got %v after %s, want a conflict after one try", err, w.passed())
	}
	kept(t, drafts, i)
	// the same, with the reply lost: the refusal is not taken for something else
	w.becomes(firstPost(cutReply))
	other := r.intent()
	other.Expected = &saw
	if _, err := sender(t, drafts, 5, w.url).Send(t.Context(), other); !errors.As(err, &conflict) {
		t.Errorf("after a lost reply: %v", err)
	}
	r.executes(t, before)
}

// two are two rails, each with a database of its own, and one matter that the first
// has and the second does not yet. Each is reached over a wire.
type two struct {
	a, b         *rig
	toA, toB     *wire
	awayA, hereB rail.UUID // changes that have begun
}

func newTwo(t *testing.T) *two {
	t.Helper()
	p := &two{a: newRig(t), b: newRig(t)}
	p.b.key = p.a.key
	p.b.setTokens(p.a.tokens)
	p.toA, p.toB = newWire(t, p.a.url, always), newWire(t, p.b.url, always)
	p.a.old(t, "second", p.toB.url)
	p.a.fence(t, "rail")
	p.b.old(t, "first", p.toA.url)
	p.b.fence(t, "first")
	return p
}

// close closes the first side and the second's door to it; open lets the second decide.
func (p *two) close(t *testing.T) {
	t.Helper()
	p.awayA, p.hereB = p.a.close(t, "second"), p.b.close(t, "rail")
}

func (p *two) open(t *testing.T) {
	t.Helper()
	p.a.open(t, p.awayA)
	p.b.open(t, p.hereB)
}

func (p *two) cross(t *testing.T) {
	t.Helper()
	p.close(t)
	p.open(t)
}

// executes holds the two sides together to one number.
func (p *two) executes(t *testing.T, a, b int64) {
	t.Helper()
	p.a.executes(t, a)
	p.b.executes(t, b)
}

func TestClientFollowsAuthority(t *testing.T) {
	t.Parallel()
	p := newTwo(t)
	p.cross(t)
	drafts, i := &client.Memory{}, p.a.intent()
	receipt, err := sender(t, drafts, 5, p.toA.url).Send(t.Context(), i)
	if err != nil || receipt.Epoch != 2 || receipt.Outcome != "accepted" {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	if p.toA.passed() != "POST" || p.toB.passed() != "GET POST" {
		t.Errorf("passed %s at the first, %s at the second: want the receipt to be asked for before the intent is sent", p.toA.passed(), p.toB.passed())
	}
	for _, body := range append(p.toA.sent, p.toB.sent...) {
		if !strings.Contains(body, i.ID) || !strings.Contains(body, i.Digest()) {
			t.Errorf("another intent was sent: %s", body)
		}
	}
	if d := kept(t, drafts, i); d.Endpoint != p.toB.url || d.Epoch != 2 {
		t.Errorf("the draft is %+v", d)
	}
	p.executes(t, 0, 1)
}

// The look-alike of look-alikes: accepted by the old authority, the reply lost, and
// authority moved before anybody asked.
func TestClientWhoseReplyWasLostAndWhoseAuthorityMoved(t *testing.T) {
	t.Parallel()
	for name, downFirst := range map[string]bool{"the old authority still answers": false, "the old authority is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTwo(t)
			p.toA.becomes(func(*http.Request) int { return cutReply })
			drafts, i := &client.Memory{}, p.a.intent()
			c := sender(t, drafts, 6, p.toA.url, p.toB.url)
			if _, err := sender(t, drafts, 1, p.toA.url).Send(t.Context(), i); err == nil {
				t.Fatal("the reply was not lost")
			}
			p.b.imported(t, asked{ID: i.ID, Kind: i.Kind, Digest: i.Digest()}, "accepted")
			p.cross(t)
			if !downFirst {
				p.toA.becomes(always)
			}
			receipt, err := c.Resume(t.Context(), i.Matter, i.ID)
			if err != nil || receipt.Outcome != "accepted" || receipt.Epoch != 1 {
				t.Fatalf("got %+v, %v", receipt, err)
			}
			if strings.Contains(p.toB.passed(), "POST") || strings.Count(p.toA.passed(), "POST") != 1 {
				t.Errorf("it was sent again: %s at the first, %s at the second", p.toA.passed(), p.toB.passed())
			}
			p.executes(t, 1, 0)
		})
	}
}

// The same with an intent that had never arrived: it is executed by the new authority.
func TestClientWhoseAuthorityIsGone(t *testing.T) {
	t.Parallel()
	p := newTwo(t)
	p.toA.becomes(func(*http.Request) int { return cutFirst })
	drafts, i := &client.Memory{}, p.a.intent()
	p.cross(t)
	receipt, err := sender(t, drafts, 6, p.toA.url, p.toB.url).Send(t.Context(), i)
	if err != nil || receipt.Epoch != 2 || p.toB.passed() != "LOOK GET POST" {
		t.Fatalf("got %+v, %v after %s", receipt, err, p.toB.passed())
	}
	p.executes(t, 0, 1)
}

func TestClientWaitsForAClosing(t *testing.T) {
	t.Parallel()
	p := newTwo(t)
	p.close(t)
	drafts, i := &client.Memory{}, p.a.intent()
	_, err := sender(t, drafts, 2, p.toA.url).Send(t.Context(), i)
	if closing := (*client.Closing)(nil); !errors.As(err, &closing) || closing.After <= 0 || closing.Epoch != 1 {
		t.Fatalf("got %v, want a closing", err)
	}
	kept(t, drafts, i)
	done := make(chan error, 1)
	go func() {
		_, err := sender(t, drafts, 100000, p.toA.url).Resume(t.Context(), i.Matter, i.ID)
		done <- err
	}()
	before := p.toA.passed()
	eventually(t, "it is at the door", func() bool { return len(done) > 0 || p.toA.passed() != before })
	if len(done) > 0 {
		t.Fatalf("it did not wait: %v", <-done)
	}
	p.open(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.executes(t, 0, 1)
}

func TestClientOnARetiredPath(t *testing.T) {
	t.Parallel()
	p := newTwo(t)
	p.cross(t)
	p.a.verb(t, p.a.control.Retire, p.awayA)
	drafts, i := &client.Memory{}, p.a.intent()
	if receipt, err := sender(t, drafts, 5, p.toA.url).Send(t.Context(), i); err != nil || receipt.Epoch != 2 {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	// where it may not follow, it says so, and the token does not go there either
	other, passed := p.a.intent(), p.toB.passed()
	c, err := client.New(client.Options{Endpoints: []string{p.toA.url}, Drafts: drafts, Token: func(endpoint string) (string, error) {
		if endpoint != p.toA.url {
			return "", errors.New("a stranger")
		}
		return forFirm, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), other)
	if gone := (*client.Retired)(nil); !errors.As(err, &gone) || gone.Epoch != 2 || gone.Endpoint != p.toB.url || !strings.Contains(err.Error(), "a stranger") {
		t.Errorf("got %v, want a retired path", err)
	}
	if kept(t, drafts, other); p.toB.passed() != passed {
		t.Errorf("a stranger was asked: %s", p.toB.passed())
	}
	p.executes(t, 0, 1)
}

// Authority moved to somebody who has named no endpoint: that is told, and not tried
// for ever.
func TestClientThatCannotFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.old(t, "silent", "")
	r.fence(t, "silent")
	drafts, i := &client.Memory{}, r.intent()
	_, err := sender(t, drafts, 100, r.url).Send(t.Context(), i)
	if moved := (*client.Moved)(nil); !errors.As(err, &moved) || moved.Writer != "silent" || moved.Epoch != 1 {
		t.Errorf("got %v, want that it moved", err)
	}
	kept(t, drafts, i)
	r.executes(t, 0)
}

// What an old authority has not said is asked for, and never sent again.
func TestClientWhoseOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.old(t, "old-house", "")
	r.fence(t, "old-house")
	w, drafts, i := newWire(t, r.url, always), &client.Memory{}, r.intent()
	as := asked{ID: i.ID, Kind: i.Kind, Digest: i.Digest()}
	r.imported(t, as, "unknown")
	_, err := sender(t, drafts, 4, w.url).Send(t.Context(), i)
	if unknown := (*client.Unknown)(nil); !errors.As(err, &unknown) || w.passed() != "POST GET GET GET" {
		t.Fatalf("got %v after %s", err, w.passed())
	}
	kept(t, drafts, i)
	r.imported(t, as, "accepted")
	if receipt, err := sender(t, drafts, 4, w.url).Resume(t.Context(), i.Matter, i.ID); err != nil || receipt.Writer != "old-house" || w.passed() != "POST GET GET GET GET" {
		t.Errorf("got %+v, %v after %s", receipt, err, w.passed())
	}
	r.executes(t, 0)
}

func TestClientThatIsRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	drafts, i := &client.Memory{}, r.intent()
	c, err := client.New(client.Options{Endpoints: []string{r.url}, Drafts: drafts, Token: func(string) (string, error) { return forOther, nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), i)
	if rejected := (*client.Rejected)(nil); !errors.As(err, &rejected) || rejected.Status != http.StatusForbidden {
		t.Errorf("another firm's token: %v", err)
	}
	if _, err := sender(t, drafts, 3, r.url).Resume(t.Context(), i.Matter, i.ID); err != nil {
		t.Errorf("with its own: %v", err)
	}
	other := i
	other.Payload = []byte("something else")
	if _, err := sender(t, drafts, 3, r.url).Send(t.Context(), other); !errors.Is(err, client.ErrOtherDraft) {
		t.Errorf("another intent under the same draft: %v", err)
	}
	_, err = sender(t, &client.Memory{}, 3, r.url).Send(t.Context(), other)
	if differs := (*client.Differs)(nil); !errors.As(err, &differs) || differs.Recorded != i.Digest() || differs.Given != other.Digest() {
		t.Errorf("another intent under the same id: %v", err)
	}
	r.executes(t, 1)
}

// Many clients with one intent, over a wire that cuts by turns.
func TestManyClientsWithOneIntent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var turn atomic.Int64
	w := newWire(t, r.url, func(*http.Request) int { return int(turn.Add(1)) % 3 })
	i := r.intent()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			receipt, err := sender(t, &client.Memory{}, 100000, w.url).Send(t.Context(), i)
			if err != nil || receipt.Outcome != "accepted" || string(receipt.Result) != `{"requested_generation":1}` {
				t.Errorf("got %+v, %v", receipt, err)
			}
		})
	}
	all.Wait()
	r.executes(t, 1)
}

// A process is killed when its intent was accepted and before it heard so. The next one
// finds the draft as sent, and asks.
func TestClientKilledBeforeItsReply(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("RAIL_TEST_DRAFTS"); dir != "" {
		sendAndHang(t, dir, os.Getenv("RAIL_TEST_ENDPOINT"), os.Getenv("RAIL_TEST_INTENT"))
		return
	}
	r, dir := newRig(t), t.TempDir()
	w, i := newWire(t, r.url, func(*http.Request) int { return cutReply }), r.intent()
	w.held = make(chan struct{})
	defer close(w.held)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClientKilledBeforeItsReply$")
	cmd.Env = append(os.Environ(), "RAIL_TEST_DRAFTS="+dir, "RAIL_TEST_ENDPOINT="+w.url, "RAIL_TEST_INTENT="+strings.Join([]string{i.ID, i.Firm, i.Matter, string(i.Payload)}, "|"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the intent comes", func() bool { return r.executed(t) > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	drafts, err := client.NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := sender(t, drafts, 3, r.url)
	all, err := c.Drafts(t.Context())
	if err != nil || len(all) != 1 || !all[0].Sent || all[0].Intent.ID != i.ID || string(all[0].Intent.Payload) != string(i.Payload) {
		t.Fatalf("the drafts are %+v, %v", all, err)
	}
	// its endpoint is the wire that hangs: send it where the rail answers
	all[0].Endpoint = r.url
	if err := drafts.Put(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	receipt, err := c.Resume(t.Context(), all[0].Intent.Matter, all[0].Intent.ID)
	if err != nil || receipt.Outcome != "accepted" || !receipt.Replayed {
		t.Errorf("got %+v, %v", receipt, err)
	}
	r.executes(t, 1)
}

// sendAndHang is the process that is killed.
func sendAndHang(t *testing.T, dir, endpoint, intent string) {
	t.Helper()
	part := strings.Split(intent, "|")
	drafts, err := client.NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sender(t, drafts, 1, endpoint).Send(t.Context(), client.Intent{
		ID: part[0], Firm: part[1], Matter: part[2], Kind: client.Regenerate, Payload: []byte(part[3]),
	})
	t.Fatalf("it was not killed: %v", err)
}
