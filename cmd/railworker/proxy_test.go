package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a worker and PostgreSQL. It counts what is asked, delays
// answers, and loses an answer or a request on demand.
type proxy struct {
	target string
	asked  atomic.Int64 // queries: each ends in a Query or a Sync message
	pinged atomic.Int64 // those among them that only ask whether the session is alive
	delay  atomic.Int64 // of every answer, in nanoseconds

	mu    sync.Mutex
	conns map[net.Conn]bool
	// when a request holds match, its answer (or with request the request itself)
	// is lost and the connection cut; times counts down
	match   []byte
	request bool
	times   int
	lost    int
}

// through starts a proxy and returns it with the DSN that leads through it.
func through(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: u.Host, conns: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	go p.accept(l)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			_ = c.Close()
		}
	})
	return p, u.String()
}

// lose loses the answers of the next requests that hold match, or the requests.
func (p *proxy) lose(match string, times int, request bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.times, p.request = []byte(match), times, request
}

func (p *proxy) lostSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		s := &session{proxy: p, client: client, server: server}
		go s.requests()
		go s.answers()
	}
}

type session struct {
	*proxy
	client, server net.Conn
	mute           atomic.Bool // its answers are lost
	messages       messages
}

func (s *session) end() { _ = s.client.Close(); _ = s.server.Close() }

func (s *session) requests() {
	defer s.end()
	buf := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := s.client.Read(buf)
		if err != nil {
			return
		}
		s.asked.Add(s.messages.count(buf[:n]))
		s.pinged.Add(int64(bytes.Count(buf[:n], []byte("-- ping\x00"))))
		tail = append(tail[max(0, len(tail)-200):], buf[:n]...)
		lost, request := s.hit(tail)
		if lost {
			s.mute.Store(true)
			if request {
				return
			}
		}
		if _, err := s.server.Write(buf[:n]); err != nil {
			return
		}
		if lost {
			time.AfterFunc(300*time.Millisecond, s.end) // by then the server has done it
			tail = nil
		}
	}
}

func (p *proxy) hit(chunk []byte) (lost, request bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !bytes.Contains(chunk, p.match) {
		return false, false
	}
	p.times--
	p.lost++
	return true, p.request
}

func (s *session) answers() {
	defer s.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.server.Read(buf)
		if err != nil {
			return
		}
		if d := time.Duration(s.delay.Load()); d > 0 {
			<-time.After(d)
		}
		if s.mute.Load() {
			continue
		}
		if _, err := s.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// messages finds the ends of requests in a frontend's byte stream: a message is a
// type and a length; only the first, the start-up, has no type.
type messages struct {
	begun bool
	head  []byte
	skip  int
}

func (m *messages) count(b []byte) (n int64) {
	for len(b) > 0 {
		if m.skip > 0 {
			k := min(m.skip, len(b))
			m.skip, b = m.skip-k, b[k:]
			continue
		}
		want := 4
		if m.begun {
			want = 5
		}
		k := min(want-len(m.head), len(b))
		m.head, b = append(m.head, b[:k]...), b[k:]
		if len(m.head) < want {
			return n
		}
		m.skip = int(binary.BigEndian.Uint32(m.head[want-4:])) - 4
		if m.begun && (m.head[0] == 'Q' || m.head[0] == 'S') {
			n++
		}
		m.begun, m.head = true, m.head[:0]
	}
	return n
}
