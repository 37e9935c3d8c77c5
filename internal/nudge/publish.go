package nudge

import (
	"context"
	"fmt"

	"briefrail/internal/rail"
)

// sender makes one call for nudges that are all fit to be sent. It returns one Result
// a nudge, or an error when there is no answer for any of them.
type sender func(ctx context.Context, nudges []Nudge) ([]Result, error)

// publish is what both sinks do around their one call: a nudge that could never be
// taken is judged here and spoils no call, and a call that AWS refuses as a whole is
// made again for each nudge alone, so that only the one to blame is parked.
func publish(ctx context.Context, nudges []Nudge, limit int, send sender) ([]Result, error) {
	if len(nudges) == 0 {
		return nil, nil
	}
	if len(nudges) > MaxEntries {
		return nil, fmt.Errorf("publish %d nudges: at most %d a call", len(nudges), MaxEntries)
	}
	results := make([]Result, len(nudges))
	var fit []Nudge
	var where []int
	for i, n := range nudges {
		if results[i] = unfit(n, limit); results[i].Verdict != Final {
			fit, where = append(fit, n), append(where, i)
		}
	}
	if len(fit) == 0 {
		return results, nil
	}
	answers, err := send(ctx, fit)
	if verdict, code := ClassOf(err); verdict == Final {
		answers, err = alone(ctx, fit, send, Result{Verdict: Final, Code: code, Text: clip(err.Error())}), nil
	}
	if err != nil {
		return nil, err
	}
	for i, at := range where {
		results[at] = answers[i]
	}
	return results, nil
}

// unfit judges a nudge that no sink would ever take. Anything else stays Retry.
func unfit(n Nudge, limit int) Result {
	if _, err := rail.ParseEventName(string(n.Name)); err != nil {
		return Result{Verdict: Final, Code: codeBadName, Text: clip(err.Error())}
	}
	if size := Size(n); size > limit {
		return Result{Verdict: Final, Code: codeTooLarge, Text: fmt.Sprintf("%d bytes, at most %d", size, limit)}
	}
	return Result{}
}

// alone sends each nudge in a call of its own. refused is the answer that the nudge
// got already if it was alone.
func alone(ctx context.Context, nudges []Nudge, send sender, refused Result) []Result {
	if len(nudges) == 1 {
		return []Result{refused}
	}
	results := make([]Result, len(nudges))
	for i := range nudges {
		answer, err := send(ctx, nudges[i:i+1])
		if err != nil {
			verdict, code := ClassOf(err)
			results[i] = Result{Verdict: verdict, Code: code, Text: clip(err.Error())}
			continue
		}
		results[i] = answer[0]
	}
	return results
}

// unanswered is the result of all entries of an answer that cannot be matched.
func unanswered(n int, code, text string) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = Result{Verdict: Retry, Code: code, Text: text}
	}
	return results
}

// allSent reports whether every entry was taken.
func allSent(results []Result) bool {
	for _, r := range results {
		if r.Verdict != Sent {
			return false
		}
	}
	return true
}
