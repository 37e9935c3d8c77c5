package rail

import (
	"encoding/hex"
	"fmt"
)

// Token is the fencing token of one claim: the generation that the claim got
// from the job row's counter, together with the random id of its run. The counter
// orders writes; the run id cannot repeat, which keeps the pair unique even after
// a restore or a lossy failover has rewound the counter.
type Token struct {
	Generation int64
	Run        UUID
}

// String returns generation@run for logs.
func (t Token) String() string { return fmt.Sprintf("%d@%s", t.Generation, t.Run) }

// TraceParent is the W3C trace context (version 00, sampled) that everything about
// this run goes by: builder call, log lines, facts. It is derived from the random
// run id, so whoever has a run row can name its trace, and nothing has to be kept.
// RunTraceSQL is the same in SQL.
func (t Token) TraceParent() string { return "00-" + t.TraceID() + "-" + t.TraceID()[:16] + "-01" }

// TraceID is the trace's id: the run id's 32 hexadecimal digits.
func (t Token) TraceID() string { return hex.EncodeToString(t.Run[:]) }

// RunTraceSQL is TraceParent as an SQL expression over a run id.
func RunTraceSQL(run string) string {
	digits := `replace(` + run + `::text, '-', '')`
	return `'00-' || ` + digits + ` || '-' || left(` + digits + `, 16) || '-01'`
}
