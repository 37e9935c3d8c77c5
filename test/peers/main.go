package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// bound is the size of a search; demands and attempts stay as the model has them.
type bound struct{ workers, faults int }

func (b bound) String() string { return fmt.Sprintf("%d/%d", b.workers, b.faults) }

// The smallest search is the start of a program and little else.
var smallest = bound{1, 0} // constant

// plan says what is measured.
type plan struct {
	bounds []bound
	rounds int           // turns of each peer
	limit  time.Duration // the longest run, by the clock on the wall
}

func main() {
	var (
		bounds = flag.String("bounds", "2/1,2/2,3/3,4/4", "workers/faults of each search, the smaller ones first")
		rounds = flag.Int("rounds", 3, "turns that each peer takes at each bound")
		limit  = flag.Duration("limit", 10*time.Minute, "a peer is stopped when one run takes longer, and left out of larger bounds")
		write  = flag.String("write", "", "document to write the table into, between its markers")
		search = flag.String("search", "", "be the Go peer of another command: search this bound, print states and transitions")
		judged = flag.Bool("judge", false, "with -search: judge also what must be reachable, and what must be recoverable")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *search != "" {
		exitOn(searchHere(ctx, *search, *judged))
		return
	}
	p := plan{rounds: max(1, *rounds), limit: *limit}
	var err error
	if p.bounds, err = parseBounds(*bounds); err == nil {
		err = run(ctx, p, *write)
	}
	exitOn(err)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parseBounds(list string) (bounds []bound, err error) {
	for text := range strings.SplitSeq(list, ",") {
		var b bound
		if _, err := fmt.Sscanf(text, "%d/%d", &b.workers, &b.faults); err != nil || text != b.String() {
			return nil, fmt.Errorf("bound %q: give workers/faults, as 3/3", text)
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

func run(ctx context.Context, p plan, write string) (err error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	peers, err := newPeers(dir)
	if err != nil {
		return err
	}
	var t table
	for _, q := range peers {
		if q.missing != "" {
			t.notes = append(t.notes, fmt.Sprintf("%s is left out: %s.", q.name, q.missing))
			fmt.Fprintln(os.Stderr, "peers:", t.notes[len(t.notes)-1])
		}
	}
	for _, b := range append([]bound{smallest}, p.bounds...) {
		if err := turns(ctx, p, peers, b); err != nil {
			return err
		}
	}
	t.fill(p, peers)
	if err := t.show(os.Stdout); err != nil {
		return err
	}
	if write != "" {
		err = t.write(write)
	}
	return errors.Join(err, agree(p, peers))
}

// turns lets the peers take turns at one bound, at a small one more of them, as there
// the start of a program is most of its time. A peer that is too slow is asked for
// nothing more.
func turns(ctx context.Context, p plan, peers []*peer, b bound) error {
	rounds := p.rounds
	switch size := b.workers * b.faults; {
	case size <= 4:
		rounds *= 7
	case size <= 9:
		rounds *= 3
	}
	for i := range rounds {
		for j := range peers {
			q := peers[(i+j)%len(peers)]
			if q.missing != "" || q.stopped != (bound{}) {
				continue
			}
			fmt.Fprintf(os.Stderr, "peers: %v, turn %d: %s\n", b, i+1, q.name)
			r, err := q.measure(ctx, b, p.limit)
			switch {
			case errors.Is(err, errTooLong):
				q.stopped = b
				q.runs[b] = nil
			case err != nil:
				return fmt.Errorf("%s at %v: %w", q.name, b, err)
			default:
				q.runs[b] = append(q.runs[b], r)
			}
		}
	}
	return nil
}

// agree complains where two peers count differently.
func agree(p plan, peers []*peer) error {
	var errs []error
	for _, b := range p.bounds {
		var first *peer
		for _, q := range peers {
			for _, r := range q.runs[b] {
				if first == nil {
					first = q
				}
				if want := first.runs[b][0]; r.counts != want.counts {
					errs = append(errs, fmt.Errorf("%v: %s counts %v, %s %v: one of the two is another model",
						b, q.name, r.counts, first.name, want.counts))
				}
			}
		}
	}
	return errors.Join(errs...)
}
