package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// work tells on a terminal what is going on when it takes longer than a second.
type work struct {
	note  atomic.Pointer[string]
	end   func() // stops telling and leaves the line empty; may be called again
	stop  chan struct{}
	ended chan struct{}
}

// working starts to tell; whatever was told of before is over. Output of any kind
// ends it, and so does end.
func (a *app) working(label string) *work {
	a.hush()
	w := &work{stop: make(chan struct{}), ended: make(chan struct{})}
	w.end = sync.OnceFunc(func() { close(w.stop); <-w.ended })
	w.say("")
	a.current = w
	if a.watched {
		go w.tell(a, label)
	} else {
		close(w.ended)
	}
	return w
}

// hush ends what is being told, so that something else can be written.
func (a *app) hush() {
	if a.current != nil {
		a.current.end()
	}
}

// say replaces the note beside the label.
func (w *work) say(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.note.Store(&s)
}

func (w *work) tell(a *app, label string) {
	defer close(w.ended)
	start, tick := time.Now(), time.NewTicker(time.Second)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(a.stderr, "\r\x1b[K%s: %s %s", label, span(time.Since(start)), *w.note.Load())
			told = true
		case <-w.stop:
			if told {
				fmt.Fprint(a.stderr, "\r\x1b[K")
			}
			return
		}
	}
}
