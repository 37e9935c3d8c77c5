package specs

import (
	"errors"
	"fmt"
	"strings"

	"briefrail/internal/model"
)

// maxRecords of a batch.
const maxRecords = 3

// batchState is a queue that becomes one batch. Nothing fails in it: the gate alone
// goes wrong.
type batchState struct {
	Records   uint8 // enqueued so far
	Flagged   [maxRecords]bool
	Processed bool
	Default   [maxRecords]bool // sent down the default path; the others went to review
}

type batchAct uint8

const (
	batchFlagless batchAct = iota
	batchFlagged
	batchProcess
)

// batch is a variant of the gate: by its first record the whole batch goes one way,
// by record each goes its own.
type batch struct{ first bool }

func batchEntry() Entry {
	return Entry{
		Name:  "batch",
		About: "a gate that sends flagged records of a batch to review",
		Gates: []string{"first", "record"},
		build: func(s settings) Checked {
			return checked[batchState, batchAct]{title: s.title(), model: batch{first: s.gate == "first"}.model()}
		},
	}
}

func (b batch) model() model.Model[batchState, batchAct] {
	return model.Model[batchState, batchAct]{
		Name:     "batch",
		Next:     b.next,
		Label:    func(_ batchState, a batchAct, _ batchState) string { return a.String() },
		Describe: describeBatch,
		Properties: []model.Property[batchState]{
			{Name: "no flagged record on the default path", Kind: model.Never, At: batchState.misrouted},
			{Name: "a flagged record is processed", Kind: model.Reachable, At: func(s batchState) bool { return s.Processed && s.Flagged[0] }},
		},
	}
}

func (b batch) next(s batchState, yield func(batchAct, batchState)) {
	if s.Processed {
		return
	}
	if s.Records < maxRecords {
		to := s
		to.Records++
		yield(batchFlagless, to)
		to.Flagged[s.Records] = true
		yield(batchFlagged, to)
	}
	if s.Records > 0 {
		s.Processed = true
		for i := range s.Records {
			s.Default[i] = !b.review(s.Flagged[:s.Records], int(i))
		}
		yield(batchProcess, s)
	}
}

// review is the gate: whether record i of the batch goes to review.
func (b batch) review(flagged []bool, i int) bool {
	if b.first {
		return flagged[0]
	}
	return flagged[i]
}

// misrouted reports whether a flagged record went down the default path.
func (s batchState) misrouted() bool {
	for i, flagged := range s.Flagged {
		if flagged && s.Default[i] {
			return true
		}
	}
	return false
}

func (a batchAct) String() string {
	return [...]string{"enqueue flag-less", "enqueue flagged", "process batch"}[a]
}

func describeBatch(s batchState) []model.Field {
	var records, paths []string
	for i := range s.Records {
		records = append(records, map[bool]string{true: "flagged", false: "flag-less"}[s.Flagged[i]])
		if s.Processed {
			paths = append(paths, map[bool]string{true: "default", false: "review"}[s.Default[i]])
		}
	}
	list := func(words []string) string {
		if len(words) == 0 {
			return "none"
		}
		return strings.Join(words, ", ")
	}
	return []model.Field{{Name: "records", Value: list(records)}, {Name: "paths", Value: list(paths)}}
}

// Misrouting is what the gate by the first record does to batches of one size.
type Misrouting struct {
	Size     int     `json:"size"`     // records of a batch
	Flagless float64 `json:"flagless"` // probability that a record is flag-less
	Expected float64 `json:"expected"` // share of flagged records that are misrouted: flagless x (size-1)/size
	Measured float64 `json:"measured"` // the same, over Records simulated ones
	Records  int     `json:"records"`
}

// Simulate measures the first-record gate on a grid of batch sizes (outer) and
// probabilities (inner), with one generator for all of it. Every cell has records
// records, rounded down to whole batches.
func Simulate(sizes []int, flagless []float64, records int, seed uint32) ([]Misrouting, error) {
	random := model.NewTwister(seed)
	var cells []Misrouting
	for _, size := range sizes {
		if size < 1 || records < size {
			return nil, fmt.Errorf("batches of %d among %d records: give a size of at least 1 and at least one batch", size, records)
		}
		for _, q := range flagless {
			if !(q >= 0 && q <= 1) {
				return nil, errors.New("a probability lies between 0 and 1")
			}
			cells = append(cells, simulate(random, size, records/size, q))
		}
	}
	return cells, nil
}

// simulate is one cell of the grid.
func simulate(random *model.Twister, size, batches int, q float64) Misrouting {
	gate := batch{first: true}
	flagged, lost := 0, 0
	records := make([]bool, size)
	for range batches {
		for i := range records {
			records[i] = random.Float64() >= q
		}
		for i, f := range records {
			if f {
				if flagged++; !gate.review(records, i) {
					lost++
				}
			}
		}
	}
	cell := Misrouting{Size: size, Flagless: q, Expected: q * float64(size-1) / float64(size), Records: batches * size}
	if flagged > 0 {
		cell.Measured = float64(lost) / float64(flagged)
	}
	return cell
}
