package brief

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// IngestOptions say how a folder is taken in.
type IngestOptions struct {
	// Replace marks live documents of the same name and other content as replaced;
	// the fact is then document.replaced. Without it both documents are live.
	Replace bool
	// NewMatter also appends the fact matter.created, before the documents. Its
	// event id follows from the key, so that a matter is created once.
	NewMatter bool
	// Traceparent, a W3C trace context, goes into the facts; empty is none.
	Traceparent string
	// Done is called after each document; nil is fine.
	Done func(Ingested)
}

// The outcomes of a document's ingest.
const (
	OutcomeAdded    = "added"
	OutcomeReplaced = "replaced" // added, and an older one of its name was replaced
	OutcomePresent  = "present"  // the same bytes were there already: no row, no fact
)

// Ingested says what became of one document.
type Ingested struct {
	Name       string    `json:"name"`
	DocumentID rail.UUID `json:"document_id"`
	SHA256     string    `json:"sha256"`
	MediaType  string    `json:"media_type"`
	Pages      int       `json:"pages"`
	EmptyPages int       `json:"empty_pages"` // without any text: scanned, perhaps
	Outcome    string    `json:"outcome"`
	EventID    rail.UUID `json:"event_id,omitzero"` // of its fact; none for present
}

// Ingest reads every document of a folder and stores it, each in a transaction of
// its own together with its fact. A document that cannot be read does not hold up
// the others: its error is joined to the result. An error of the database ends
// the ingest. Repeating an ingest is harmless.
func Ingest(ctx context.Context, db pg.Beginner, key rail.Key, fsys fs.FS, o IngestOptions) (out []Ingested, err error) {
	names, err := Names(fsys)
	if err != nil {
		return nil, err
	}
	r := &Reader{}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Prepare(ctx, names); err != nil {
		return nil, err
	}
	if o.NewMatter {
		if err := appendMatterFact(ctx, db, key, o.Traceparent); err != nil {
			return nil, err
		}
	}
	var unread []error
	for _, name := range names {
		doc, err := r.Read(ctx, fsys, name)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		done, err := Save(ctx, db, key, doc, o)
		if err != nil {
			return out, errors.Join(append(unread, err)...)
		}
		out = append(out, done)
		if o.Done != nil {
			o.Done(done)
		}
	}
	return out, errors.Join(unread...)
}

const (
	insertDocument = `
INSERT INTO record.documents (firm_id, matter_id, name, sha256, media_type, pages)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (firm_id, matter_id, sha256) WHERE replaced_at IS NULL AND deleted_at IS NULL DO NOTHING
RETURNING document_id`
	selectPresent = `
SELECT document_id FROM record.documents
WHERE firm_id = $1 AND matter_id = $2 AND sha256 = $3 AND replaced_at IS NULL AND deleted_at IS NULL`
	insertPages = `
INSERT INTO record.pages (document_id, page_no, text)
SELECT $1, n, text FROM unnest($2::text[]) WITH ORDINALITY AS page (text, n)`
	markReplaced = `
UPDATE record.documents SET replaced_at = clock_timestamp(), replaced_by = $4
WHERE firm_id = $1 AND matter_id = $2 AND name = $3 AND document_id <> $4
  AND replaced_at IS NULL AND deleted_at IS NULL`
	insertFact = `
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, traceparent, attributes)
VALUES ($1, $2, $3, nullif($4, ''), $5)
RETURNING event_id`
	insertMatterFact = `
INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name, traceparent)
VALUES ($1, $2, $3, 'matter.created', nullif($4, ''))
ON CONFLICT (event_id) DO NOTHING`
)

// Save stores one document and its fact in one transaction, or nothing when the
// matter has the same bytes already.
func Save(ctx context.Context, db pg.Beginner, key rail.Key, doc Document, o IngestOptions) (Ingested, error) {
	out := Ingested{
		Name: doc.Name, SHA256: hex.EncodeToString(doc.SHA256[:]), MediaType: doc.MediaType,
		Pages: len(doc.Pages), EmptyPages: emptyPages(doc.Pages), Outcome: OutcomeAdded,
	}
	err := pg.InTx(ctx, db, func(tx pgx.Tx) error { return save(ctx, tx, key, doc, o, &out) })
	if err != nil {
		return Ingested{}, fmt.Errorf("store document %q of %s: %w", doc.Name, key, err)
	}
	return out, nil
}

func save(ctx context.Context, tx pgx.Tx, key rail.Key, doc Document, o IngestOptions, out *Ingested) error {
	err := tx.QueryRow(ctx, insertDocument, key.Firm, key.Matter, doc.Name, doc.SHA256[:], doc.MediaType, len(doc.Pages)).Scan(&out.DocumentID)
	if errors.Is(err, pgx.ErrNoRows) {
		out.Outcome = OutcomePresent
		return tx.QueryRow(ctx, selectPresent, key.Firm, key.Matter, doc.SHA256[:]).Scan(&out.DocumentID)
	}
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertPages, out.DocumentID, doc.Pages); err != nil {
		return err
	}
	fact := rail.EventName("document.uploaded")
	if o.Replace {
		tag, err := tx.Exec(ctx, markReplaced, key.Firm, key.Matter, doc.Name, out.DocumentID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			fact, out.Outcome = "document.replaced", OutcomeReplaced
		}
	}
	out.EventID, err = appendFact(ctx, tx, key, fact, o.Traceparent, map[string]string{"document_id": out.DocumentID.String()})
	return err
}

// appendFact is what any producer does, in any language: one plain INSERT in the
// transaction that makes the fact true.
func appendFact(ctx context.Context, tx pgx.Tx, key rail.Key, name rail.EventName, trace string, attributes map[string]string) (rail.UUID, error) {
	var id rail.UUID
	body, err := json.Marshal(attributes)
	if err != nil {
		return id, fmt.Errorf("append %s: %w", name, err)
	}
	if err := tx.QueryRow(ctx, insertFact, key.Firm, key.Matter, name, trace, body).Scan(&id); err != nil {
		return id, fmt.Errorf("append %s: %w", name, err)
	}
	return id, nil
}

func appendMatterFact(ctx context.Context, db pg.Beginner, key rail.Key, trace string) error {
	sum := sha256.Sum256([]byte("matter.created " + key.String()))
	event := rail.UUID(sum[:16])
	event[6], event[8] = event[6]&0x0f|0x80, event[8]&0x3f|0x80 // version 8: made by a rule of its own
	err := pg.InTx(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertMatterFact, event, key.Firm, key.Matter, trace)
		return err
	})
	if err != nil {
		return fmt.Errorf("create matter %s: %w", key, err)
	}
	return nil
}

func emptyPages(pages []string) (n int) {
	for _, p := range pages {
		if p == "" {
			n++
		}
	}
	return n
}
