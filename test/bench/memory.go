package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

const largest = 16 << 20

// memory measures what checking and landing a frame of the largest size adds to
// the heap beside the frame itself.
func (b *bench) memory(ctx context.Context) error {
	pool, err := b.pool(ctx, small, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := b.do(ctx, small, calmSQL); err != nil {
		return err
	}
	k := rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	if _, err := jobs.Demand(ctx, pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard}}, time.Minute); err != nil {
		return err
	}
	won, err := runs.Claim(ctx, pool, 1, claimOptions())
	if err != nil || len(won) != 1 {
		return fmt.Errorf("%d jobs won, want 1: %w", len(won), err)
	}
	raw := largeFrame(largest)
	var checked frames.Checked
	check, err := heapAbove(func() (err error) { checked, err = frames.Check(raw, largest); return err })
	if err != nil {
		return err
	}
	land, err := heapAbove(func() error {
		_, err := runs.Land(ctx, pool, runs.Landing{Claim: won[0].Claim, Digest: checked.Digest, Frame: runs.Frame{
			JSON: raw, SchemaVersion: "bench/1", BuilderVersion: "bench/1",
		}})
		return err
	})
	if err != nil {
		return err
	}
	b.results.add("heap beside a frame of 16 MiB: check", fmt.Sprintf("%.2f of its size", check/largest), "", "", "no multiple")
	b.results.add("heap beside a frame of 16 MiB: landing", fmt.Sprintf("%.2f of its size", land/largest), "", "", "no multiple")
	return nil
}

// largeFrame is an object of n bytes with many members, out of order.
func largeFrame(n int) []byte {
	var out bytes.Buffer
	out.Grow(n)
	out.WriteString(`{"z":"last first","assertions":[`)
	for i := 0; out.Len() < n-200; i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"quote":"what was said in sentence %d","page":%d,"document":"d%d"}`, i, i%300, i%7)
	}
	out.WriteString(`],"pad":"`)
	out.Write(bytes.Repeat([]byte("x"), n-out.Len()-2))
	out.WriteString(`"}`)
	return out.Bytes()
}

// heapAbove returns by how many bytes the live heap rose at most while do ran.
func heapAbove(do func() error) (float64, error) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() float64 { metrics.Read(sample); return float64(sample[0].Value.Uint64()) }
	runtime.GC()
	before := read()
	done, peak := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		highest := before
		for {
			select {
			case <-done:
				peak <- max(highest, read())
				return
			case <-tick.C:
				highest = max(highest, read())
			}
		}
	}()
	err := do()
	close(done)
	return <-peak - before, err
}
