package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Regenerate asks for a fresh Brief.
const Regenerate = "brief.regenerate"

// Intent is what a person asked for, once.
type Intent struct {
	ID       rail.UUID
	Key      rail.Key
	Kind     string
	Expected *int64   // revision that was seen; nil: any
	Digest   [32]byte // SHA-256 of the payload
	Epoch    *int64   // under which it is asked; nil: whichever is current
}

// The verdicts of an Answer.
const (
	Accepted     = "accepted"      // and there is one result for ever
	Refused      = "refused"       // the document changed: Revision says what it is now
	Unknown      = "unknown"       // nobody knows yet; it is never sent twice
	OtherDigest  = "other_digest"  // the id belongs to something else: PayloadDigest; Result names what differs
	EpochChanged = "epoch_changed" // authority is at Epoch, Writer, Endpoint
	Closing      = "closing"       // the same intent again after RetryAfter
	OtherFirm    = "other_firm"    // the session acts for another firm
)

// Answer is what became of an intent.
type Answer struct {
	Verdict       string          `json:"verdict" db:"verdict"`
	Replayed      bool            `json:"replayed" db:"replayed"` // it had been decided before
	Epoch         int64           `json:"epoch" db:"epoch"`
	Writer        string          `json:"writer" db:"writer"`
	Endpoint      string          `json:"endpoint,omitempty" db:"endpoint"`
	Revision      int64           `json:"revision" db:"revision"`
	Result        json.RawMessage `json:"result,omitempty" db:"result"`
	ResultDigest  []byte          `json:"result_digest,omitempty" db:"result_digest"`
	PayloadDigest []byte          `json:"payload_digest,omitempty" db:"payload_digest"`
	DecidedAt     *time.Time      `json:"decided_at,omitempty" db:"decided_at"`
	RetryAfter    *time.Duration  `json:"retry_after,omitempty" db:"retry_after"`
	Firm          rail.UUID       `json:"firm_id" db:"firm_id"` // whose intent it is: of OtherDigest, the one that has the id
	Matter        rail.UUID       `json:"matter_id" db:"matter_id"`
}

const answerColumns = `SELECT coalesce(verdict, '') AS verdict, coalesce(replayed, false) AS replayed, coalesce(epoch, 0) AS epoch, coalesce(writer, '') AS writer,
  coalesce(endpoint, '') AS endpoint, coalesce(revision, 0) AS revision, result, result_digest, payload_digest, decided_at, retry_after, firm_id, matter_id FROM `

// Submit judges an intent, or returns what was decided of it before. Every verdict is
// an Answer; an error means that nothing is known, and that Find will tell.
func Submit(ctx context.Context, db pg.DB, i Intent) (Answer, error) {
	return one[Answer](ctx, db, "Submit("+i.ID.String()+")", answerColumns+`ops.submit_intent($1, $2, $3, $4, $5, $6, $7)`,
		i.ID, i.Key.Firm, i.Key.Matter, i.Kind, i.Expected, i.Digest[:], i.Epoch)
}

// Find returns the receipt of an intent; ErrUnknown where there is none.
func Find(ctx context.Context, db pg.DB, id rail.UUID) (Answer, error) {
	a, err := one[Answer](ctx, db, "Find("+id.String()+")", answerColumns+`ops.find_intent($1)`, id)
	if err == nil && a.Verdict == "" {
		err = fmt.Errorf("authority.Find(%s): %w", id, ErrUnknown)
	}
	return a, err
}

// Place is where authority over a matter is.
type Place struct {
	Scope      string         `json:"scope" db:"scope"`
	Epoch      int64          `json:"epoch" db:"epoch"`
	Writer     string         `json:"writer" db:"writer"`
	Kind       string         `json:"kind" db:"kind"`
	Endpoint   string         `json:"endpoint,omitempty" db:"endpoint"`
	State      string         `json:"state" db:"state"`
	RetryAfter *time.Duration `json:"retry_after,omitempty" db:"retry_after"`
}

// FenceOfMatter tells who decides for a matter, what a reader announces beside a frame.
// Without a fence it is the rail, at epoch 1.
func FenceOfMatter(ctx context.Context, db pg.DB, matter rail.UUID) (Place, error) {
	return one[Place](ctx, db, "FenceOfMatter", `
SELECT scope, epoch, writer, kind, coalesce(endpoint, '') AS endpoint, state, retry_after FROM ops.matter_authority($1)`, matter)
}

// Imported is a frame of an old writer.
type Imported struct {
	Key           rail.Key
	Sequence      int64 // of the old writer, increasing for each matter
	Frame         []byte
	Digest        [32]byte // of the canonical form, as frames.Check has it
	SchemaVersion string
	Builder       string
}

// Import brings one in, in the order of its matter; the same again changes nothing.
// The session acts as the importer of the scope's writer.
func Import(ctx context.Context, db pg.DB, f Imported) (generation int64, err error) {
	err = db.QueryRow(ctx, `SELECT ops.import_frame($1, $2, $3, $4, $5, $6, $7)`,
		f.Key.Firm, f.Key.Matter, f.Sequence, string(f.Frame), f.Digest[:], f.SchemaVersion, f.Builder).Scan(&generation)
	return generation, wrap("Import("+f.Key.String()+")", err)
}

// ImportIntent brings in what became of an intent under an old writer, from the place
// that source names. One whose outcome is Unknown blocks the crossing until it is
// imported again with another; another intent of the same id is refused.
func ImportIntent(ctx context.Context, db pg.DB, i Intent, outcome string, result json.RawMessage, source string) error {
	var said *string
	if result != nil {
		text := string(result)
		said = &text
	}
	_, err := db.Exec(ctx, `SELECT ops.import_intent($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		i.ID, i.Key.Firm, i.Key.Matter, i.Kind, i.Expected, i.Digest[:], outcome, said, source)
	return wrap("ImportIntent("+i.ID.String()+")", err)
}
