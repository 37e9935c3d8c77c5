package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// work tells on a terminal what is going on when it takes longer than a second.
type work struct {
	note atomic.Pointer[string]
	stop chan struct{}
	done chan struct{}
}

// working starts to tell; end must be called before anything else is written.
func (a *app) working(label string) *work {
	w := &work{stop: make(chan struct{}), done: make(chan struct{})}
	w.say("")
	if !a.watched {
		close(w.done)
		return w
	}
	go w.tell(a, label)
	return w
}

// say replaces the note beside the label.
func (w *work) say(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.note.Store(&s)
}

func (w *work) tell(a *app, label string) {
	defer close(w.done)
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

// end stops telling and leaves the line empty.
func (w *work) end() {
	close(w.stop)
	<-w.done
}
