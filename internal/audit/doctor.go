package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// State is a diagnosis in one word.
type State string

// The states. Unknown says that it could not be looked at, which is not well.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Fail    State = "fail"
	Unknown State = "unknown"
)

// Diagnosis is one thing looked at.
type Diagnosis struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Text   string `json:"text"`             // what was found
	Advice string `json:"advice,omitempty"` // what to do, where something is wrong
}

// DoctorOptions are the settings that the database is judged against; zero fields
// leave out what needs them.
type DoctorOptions struct {
	MinSchema, MaxSchema int // range of schema versions that this program works with
	MaxConns             int // database.max_conns of one process
	Lease                time.Duration
	Renew                bool // lease.renew
	BuilderTimeout       time.Duration
	OutboxRetention      time.Duration
	ReceiptsRetention    time.Duration
	TriggerGrace         time.Duration
	CanaryEvery          time.Duration // 0: no canary is asked for
	DisabledFirms        []rail.UUID   // trigger.disabled_firms; nil: not known, empty: none
	Timeout              time.Duration // of each look; zero means 5 s
}

// checkup is one look. It returns its finding, or an error where it could not see.
type checkup struct {
	name string
	look func(context.Context, pgx.Tx, DoctorOptions) (Diagnosis, error)
}

func checkups() []checkup {
	return []checkup{
		{"server_version", serverVersion},
		{"read_write", readWrite},
		{"schema_version", schemaVersion},
		{"ledger_identity", ledgerIdentity},
		{"roles", rolesInUse},
		{"connections", connections},
		{"oldest_snapshot", oldestSnapshot},
		{"idle_in_transaction", idleInTransaction},
		{"prepared_transactions", preparedTransactions},
		{"autovacuum", autovacuum},
		{"wraparound", wraparound},
		{"synchronous_commit", synchronousCommit},
		{"lease_and_builds", leaseAndBuilds},
		{"retention", retention},
		{"parked", parkedMatters},
		{"undecided_facts", undecidedAge},
		{"gated_facts", gatedFirms},
		{"workers", workersAlive},
		{"builder", builderTrusted},
		{"dispatch_pauses", pausesHeld},
		{"canary", canaryLanded},
		{"publishing", publishing},
		{"relays", relaysAlive},
	}
}

// Doctor looks at the database and at how the rail lives in it. Its error says
// that the database does not answer; whatever else could not be seen is Unknown in
// the list. Nothing is changed.
func Doctor(ctx context.Context, db pg.DB, o DoctorOptions) ([]Diagnosis, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	skew, err := Skew(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("audit.Doctor: %w", err)
	}
	out := []Diagnosis{clockSkew(skew), poolerMode(ctx, db), connectionSecurity(ctx, db)}
	for _, c := range checkups() {
		var d Diagnosis
		err := snapshot(ctx, db, o.Timeout, func(tx pgx.Tx) (err error) {
			d, err = c.look(ctx, tx, o)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("audit.Doctor: %w", ctx.Err())
		case errors.Is(err, errSkip):
			continue
		case err != nil:
			d = Diagnosis{State: Unknown, Text: "cannot be looked at: " + pg.Text(err, 200), Advice: unseen(err)}
		}
		d.Check = c.name
		out = append(out, d)
	}
	return out, nil
}

// errSkip leaves a checkup out: its settings were not given.
var errSkip = errors.New("not asked for")

func unseen(err error) string {
	if pg.SQLState(err) == "42501" {
		return "grant pg_monitor to the user that asks"
	}
	return ""
}

func found(state State, advice, format string, args ...any) (Diagnosis, error) {
	d := Diagnosis{State: state, Text: fmt.Sprintf(format, args...)}
	if state != OK {
		d.Advice = advice
	}
	return d, nil
}

// worse is state if bad, else OK.
func worse(bad bool, state State) State {
	if bad {
		return state
	}
	return OK
}

// Skew is how far this process's clock is ahead of the database's; behind is
// negative. Half the round trip is its uncertainty.
func Skew(ctx context.Context, db pg.DB) (time.Duration, error) {
	var theirs time.Time
	before := time.Now()
	if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs); err != nil {
		return 0, err
	}
	return before.Add(time.Since(before) / 2).Sub(theirs), nil
}

func clockSkew(skew time.Duration) Diagnosis {
	d, _ := found(worse(skew.Abs() > 5*time.Second, Warn),
		"synchronise this machine's clock; the rail keeps its times by the database's, but logs and dashboards do not",
		"this machine's clock is %s from the database's", rounded(skew.Abs()))
	d.Check = "clock_skew"
	return d
}
