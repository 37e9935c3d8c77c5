package api_test

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"briefrail/client"
	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// Clients go on while authority moves from one rail to another, over wires that cut by
// turns: each intent is executed once, by one of the two.
func TestClientsDuringACrossing(t *testing.T) {
	t.Parallel()
	const clients, each = 16, 6
	p := newTwo(t)
	var turn atomic.Int64
	for _, w := range []*wire{p.toA, p.toB} {
		w.becomes(func(*http.Request) int { return int(turn.Add(1)) % 5 }) // 3 and 4 carry
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c := sender(t, &client.Memory{}, 100000, p.toA.url, p.toB.url)
			for range each {
				i := p.a.intent()
				if receipt, err := c.Send(t.Context(), i); err != nil || receipt.Outcome != "accepted" || receipt.IntentID != i.ID {
					t.Errorf("got %+v, %v", receipt, err)
				}
			}
		})
	}
	eventually(t, "the first has executed some", func() bool { return p.a.executed(t) >= clients })
	p.close(t)
	p.a.verb(t, p.a.control.Drain, p.awayA)
	p.a.verb(t, p.a.control.Seal, p.awayA)
	taken := p.handOver(t)
	p.open(t)
	all.Wait()
	a, b := p.a.executed(t), p.b.executed(t)
	if a+b != clients*each || a != int64(taken) {
		t.Errorf("the first executed %d, the second %d, %d were handed over, want %d in all", a, b, taken, clients*each)
	}
	t.Logf("the first executed %d, the second %d", a, b)
}

// handOver imports what the first has decided into the second.
func (p *two) handOver(t *testing.T) (n int) {
	t.Helper()
	rows, err := p.a.db.Pool.Query(t.Context(), `SELECT intent_id::text, encode(payload_digest, 'hex'), outcome FROM ops.write_intents`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		i, outcome := asked{Kind: authority.Regenerate}, ""
		if err := rows.Scan(&i.ID, &i.Digest, &outcome); err != nil {
			t.Fatal(err)
		}
		p.b.imported(t, i, outcome)
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// One rail, authority there and back: an epoch that was cached is answered with the one
// that is current, and the client goes on by itself.
func TestClientWithACachedEpoch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.old(t, "old-house", "")
	r.fence(t, "rail")
	r.cross(t, "old-house")
	r.cross(t, "rail")
	w, drafts, i := newWire(t, r.url, always), &client.Memory{}, r.intent()
	if err := drafts.Put(t.Context(), client.Draft{Intent: i, Digest: i.Digest(), Endpoint: w.url, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	receipt, err := sender(t, drafts, 3, w.url).Resume(t.Context(), i.Matter, i.ID)
	if err != nil || receipt.Epoch != 3 || w.passed() != "POST GET POST" {
		t.Errorf("got %+v, %v after %s", receipt, err, w.passed())
	}
	where, err := sender(t, drafts, 3, w.url).Authority(t.Context(), w.url, i.Firm, i.Matter)
	if err != nil || where.Epoch != 3 || where.Writer != "rail" || where.Scope != "matters/bucket-"+twoDigits(rail.Bucket(r.key.Matter)) {
		t.Errorf("authority is %+v, %v", where, err)
	}
	r.executes(t, 1)
}

func twoDigits(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}
