package history

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"
)

// RecordSQL lays the recorder into a database.
//
//go:embed record.sql
var RecordSQL string

// ReadSQL reads what was recorded, in order, each change as the line that Parse takes.
const ReadSQL = `SELECT to_jsonb(c)::text FROM history.changes c ORDER BY n`

// Change is one change of one row. Exactly one of Job, Run and Frame is set.
type Change struct {
	N         int64
	TX        string    // transaction
	Since, At time.Time // the database's clock: when the statement began, and within the change
	Matter    string    // firm/matter
	Job       *Moved[Job]
	Run       *Moved[Run]
	Frame     *Moved[Frame]
}

// Moved is a row before and after; nil where there was or is none.
type Moved[T any] struct{ Old, New *T }

// Job is a row of ops.matter_frame_jobs as far as the model knows it.
type Job struct {
	Status    string    `json:"run_status"`
	Requested int64     `json:"requested_generation"`
	Claimed   int64     `json:"claimed_generation"`
	Landed    int64     `json:"landed_generation"`
	Run       string    `json:"run_id"`
	Lease     time.Time `json:"lease_expires_at"`
	Attempts  int64     `json:"attempts"`
	Owed      int64     `json:"demands_owed"`
	Flag      bool      `json:"rebuild_needed"`
}

// Run is a row of ops.matter_frame_runs.
type Run struct {
	ID         string    `json:"run_id"`
	Generation int64     `json:"generation"`
	Attempt    int64     `json:"attempt"`
	Outcome    string    `json:"outcome"`
	Late       time.Time `json:"late_write_at"`
}

// Frame is a row of ops.matter_frames.
type Frame struct {
	Generation int64  `json:"generation"`
	Run        string `json:"run_id"`
}

// Parse reads the lines of a history.
func Parse(lines []string) ([]Change, error) {
	out := make([]Change, len(lines))
	for i, line := range lines {
		var err error
		if out[i], err = parse([]byte(line)); err != nil {
			return nil, fmt.Errorf("read line %d of the history: %w", i+1, err)
		}
	}
	return out, nil
}

// rowsOf are a line's rows: of which table they are is not known yet.
type rowsOf struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

func parse(line []byte) (Change, error) {
	var raw struct {
		N     int64     `json:"n"`
		TX    string    `json:"tx"`
		Since time.Time `json:"since"`
		At    time.Time `json:"at"`
		What  string    `json:"what"`
		rowsOf
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Change{}, err
	}
	matter, err := raw.matter()
	if err != nil {
		return Change{}, err
	}
	c := Change{N: raw.N, TX: raw.TX, Since: raw.Since.UTC(), At: raw.At.UTC(), Matter: matter}
	switch raw.What {
	case "job":
		c.Job, err = moved[Job](raw.rowsOf)
	case "run":
		c.Run, err = moved[Run](raw.rowsOf)
	case "frame":
		c.Frame, err = moved[Frame](raw.rowsOf)
	default:
		err = fmt.Errorf("a change of an unknown kind %q", raw.What)
	}
	return c, err
}

func (r rowsOf) matter() (string, error) {
	var key struct {
		Firm   string `json:"firm_id"`
		Matter string `json:"matter_id"`
	}
	for _, image := range []json.RawMessage{r.Before, r.After} { // null says nothing
		if len(image) == 0 {
			continue
		}
		if err := json.Unmarshal(image, &key); err != nil {
			return "", err
		}
	}
	return key.Firm + "/" + key.Matter, nil
}

func moved[T any](r rowsOf) (*Moved[T], error) {
	var m Moved[T]
	if len(r.Before) > 0 {
		if err := json.Unmarshal(r.Before, &m.Old); err != nil { // null stays nil
			return nil, err
		}
	}
	if len(r.After) > 0 {
		if err := json.Unmarshal(r.After, &m.New); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

// UnmarshalJSON reads the instants as UTC, so that rows can be compared with ==.
func (j *Job) UnmarshalJSON(b []byte) error {
	type plain Job
	err := json.Unmarshal(b, (*plain)(j))
	j.Lease = j.Lease.UTC()
	return err
}

// UnmarshalJSON reads the instants as UTC, so that rows can be compared with ==.
func (r *Run) UnmarshalJSON(b []byte) error {
	type plain Run
	err := json.Unmarshal(b, (*plain)(r))
	r.Late = r.Late.UTC()
	return err
}
