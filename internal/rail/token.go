package rail

import "fmt"

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
