package conformance_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/model/specs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

// meaning says what the words of a published trace are here: the steps that each
// would take. A word that is not there ends the test, so that a changed trace shows.
type meaning map[string][]specs.LedgerAct

const workerA, workerB = 0, 1

func by(who int8, kinds ...specs.LedgerKind) []specs.LedgerAct {
	acts := make([]specs.LedgerAct, len(kinds))
	for i, k := range kinds {
		if acts[i] = (specs.LedgerAct{Kind: k, Who: who}); k == specs.LedgerSweeps || k == specs.LedgerDemand {
			acts[i].Who = 0
		}
	}
	return acts
}

// story replays a published counterexample and returns what bounced, in its words.
func (r *replay) story(trace []string, words meaning) (bounced []string) {
	r.t.Helper()
	for _, word := range trace {
		acts, known := words[word]
		if !known {
			r.t.Fatalf("the published trace says %q, which nothing here stands for", word)
		}
		for _, act := range acts {
			if what, refused := r.attempt(act); refused {
				bounced = append(bounced, word+": "+what)
			}
		}
	}
	return bounced
}

// ends judges how a story came out.
func (r *replay) ends(bounced, want []string, frames int) {
	r.t.Helper()
	if d := cmp.Diff(want, bounced); d != "" {
		r.t.Errorf("what bounces (-want +got):\n%s", d)
	}
	if got := len(r.m.now.Frames); got != frames || r.state.Wrong != 0 {
		r.t.Errorf("%d frames, want %d; wrong %b", got, frames, r.state.Wrong)
	}
}

// A claim whose worker crashed stays nobody's in the plain router. Here its lease runs
// out and the sweep hands it on.
func TestPublishedStuckClaim(t *testing.T) {
	t.Parallel()
	r := newReplay(t, 3)
	bounced := r.story(counterexample(t, "router-none.txt", "recovers to ROUTED"), meaning{
		"A claims":  by(workerA, specs.LedgerDemand, specs.LedgerClaims),
		"A crashes": by(workerA, specs.LedgerCrashes),
	})
	r.ends(bounced, nil, 0)
	r.recover()
	r.ends(bounced, nil, 1)
}

// A dispatch that was sent and not heard is made again by whoever claims next. Here
// dispatch and mark are one landing: the claim cannot be given back after it, and
// there is nothing to claim.
func TestPublishedDoubleDispatch(t *testing.T) {
	t.Parallel()
	t.Run("no defence", func(t *testing.T) {
		t.Parallel()
		r := newReplay(t, 3)
		r.ends(r.story(counterexample(t, "router-none.txt", "at most one L2"), meaning{
			"A claims":                          by(workerA, specs.LedgerDemand, specs.LedgerClaims),
			"A's dispatch times out (was sent)": by(workerA, specs.LedgerBuilds, specs.LedgerLandUnheard),
			"A resets to PENDING":               by(workerA, specs.LedgerReleases),
			"B claims":                          by(workerB, specs.LedgerClaims),
			"B dispatches":                      by(workerB, specs.LedgerBuilds, specs.LedgerLands),
		}), []string{
			"A resets to PENDING: A's release is refused",
			"B claims: nothing can be claimed",
			"B dispatches: there is no claim to build for",
			"B dispatches: there is no claim to build for",
		}, 1)
		r.recover()
	})
	t.Run("lease alone", func(t *testing.T) {
		t.Parallel()
		r := newReplay(t, 3)
		r.ends(r.story(counterexample(t, "router-lease.txt", "at most one L2"), meaning{
			"A claims":                by(workerA, specs.LedgerDemand, specs.LedgerClaims),
			"A dispatches":            by(workerA, specs.LedgerBuilds, specs.LedgerLands),
			"A pauses past its lease": by(workerA, specs.LedgerPauses),
			"B reclaims":              by(workerB, specs.LedgerSweeps, specs.LedgerClaims),
			"B dispatches":            by(workerB, specs.LedgerBuilds, specs.LedgerLands),
		}), []string{
			"A pauses past its lease: there is no lease that could run out",
			"B reclaims: there is nothing to sweep",
			"B reclaims: nothing can be claimed",
			"B dispatches: there is no claim to build for",
			"B dispatches: there is no claim to build for",
		}, 1)
		r.recover()
	})
}

// A zombie marks what another holds, and the other's failure then undoes it. Here the
// zombie's landing is refused, so that there is nothing to undo.
func TestPublishedZombieWrite(t *testing.T) {
	t.Parallel()
	r := newReplay(t, 3)
	r.ends(r.story(counterexample(t, "router-idem-lease.txt", "ROUTED is final"), meaning{
		"A claims (epoch 1)":      by(workerA, specs.LedgerDemand, specs.LedgerClaims),
		"A dispatches":            by(workerA, specs.LedgerBuilds),
		"A pauses, lease expires": by(workerA, specs.LedgerPauses),
		"B claims (epoch 2)":      by(workerB, specs.LedgerSweeps, specs.LedgerClaims),
		"A marks ROUTED":          by(workerA, specs.LedgerLands),
		"B's dispatch fails":      nil, // the write of it is the next step
		"B resets to PENDING":     by(workerB, specs.LedgerFails),
	}), []string{"A marks ROUTED: A's landing of 2 is refused"}, 0)
	r.recover()
}

// the job worker's words
func jobWords() meaning {
	return meaning{
		"A inserts":                     by(workerA, specs.LedgerDemand, specs.LedgerClaims),
		"A pauses past its lease":       by(workerA, specs.LedgerPauses),
		"B reclaims":                    by(workerB, specs.LedgerSweeps, specs.LedgerClaims),
		"A writes done":                 by(workerA, specs.LedgerBuilds, specs.LedgerLands),
		"B writes done":                 by(workerB, specs.LedgerBuilds, specs.LedgerLands),
		"B's engine error writes error": by(workerB, specs.LedgerFails),
		"A's engine error writes error": by(workerA, specs.LedgerFails),
	}
}

// Two workers write done. Here the first of them is no longer the holder.
func TestPublishedTwoDoneWrites(t *testing.T) {
	t.Parallel()
	r := newReplay(t, 3)
	r.ends(r.story(counterexample(t, "job-v1.txt", "at most one done write"), jobWords()),
		[]string{"A writes done: A's landing of 2 is refused"}, 1)
	r.recover()
}

// An error is written over done. Here the done write of a zombie is refused, and so is
// a zombie's error after the holder's landing.
func TestPublishedDoneToError(t *testing.T) {
	t.Parallel()
	r := newReplay(t, 3)
	r.ends(r.story(counterexample(t, "job-v1.txt", "done is final"), jobWords()),
		[]string{"A writes done: A's landing of 2 is refused"}, 0)
	r.recover()

	r = newReplay(t, 3)
	r.ends(r.story([]string{"A inserts", "A pauses past its lease", "B reclaims", "B writes done", "A's engine error writes error"}, jobWords()),
		[]string{"A's engine error writes error: A's attempt fails; the write is refused"}, 1)
	if r.m.now.Status != "idle" {
		t.Errorf("the row is %s", r.m.now.Status)
	}
}

// The first record of a batch decides for all. Here each fact of a batch has a verdict
// of its own.
func TestPublishedBatchGate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	open, closed := rail.NewUUID(), rail.NewUUID()
	rules, err := trigger.NewRules([]trigger.Rule{{Name: "document.uploaded", Priority: rail.Standard}}, []rail.UUID{closed})
	if err != nil {
		t.Fatal(err)
	}
	tr := trigger.New(db.Pool, prometheus.NewRegistry(), trigger.Options{
		Rules: rules, MaxWait: time.Minute, MaxIdle: time.Second, Batch: 500, Wake: func() {}, Loops: quiet{}, Log: slog.New(slog.DiscardHandler),
	})
	facts := 0
	enqueue := func(firm rail.UUID) {
		_, err := db.Pool.Exec(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, firm, rail.NewUUID())
		if err != nil {
			t.Fatal(err)
		}
		facts++
	}
	for _, word := range counterexample(t, "batch-first.txt", "no flagged record on the default path") {
		switch word {
		case "enqueue flag-less":
			enqueue(open)
		case "enqueue flagged":
			enqueue(closed)
		case "process batch":
			if n, err := tr.Once(t.Context()); err != nil || n != facts {
				t.Fatalf("one batch decided %d of %d facts, %v", n, facts, err)
			}
		default:
			t.Fatalf("the published trace says %q, which nothing here stands for", word)
		}
	}
	var verdicts []string
	var stray int
	err = db.Pool.QueryRow(t.Context(), `SELECT array_agg(r.verdict ORDER BY o.seq), (SELECT count(*) FROM ops.matter_frame_jobs WHERE firm_id = $1)
	  FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r ON r.event_id = o.event_id`, closed).Scan(&verdicts, &stray)
	want := []string{string(trigger.Demanded), string(trigger.GatedFirmDisabled)}
	if err != nil || !slices.Equal(verdicts, want) || stray != 0 {
		t.Errorf("verdicts %s, want %s; %d jobs of the gated firm; %v", strings.Join(verdicts, ", "), strings.Join(want, ", "), stray, err)
	}
	db.CheckLedger(t)
}

// quiet is a Loops that nobody watches.
type quiet struct{}

func (quiet) Progress(string)       {}
func (quiet) Failed(string, string) {}
