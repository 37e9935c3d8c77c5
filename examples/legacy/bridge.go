package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/frames"
)

// span is the bridge: a process of its own, under a role that may import and nothing
// else of the rail. It is behind by a moment, and caught up when it is asked to inside
// the pause of a crossing. It may be killed at any time: what it has brought over is
// found by its own rows, and bringing it again changes nothing.
type span struct {
	db  *pgxpool.Pool // as legacy_bridge
	log *slog.Logger

	exporting sync.Mutex // one pass at a time

	mu      sync.Mutex
	digests map[string]digested // by matter: heads is asked inside the pause
}

type digested struct {
	revision int64
	digest   string
}

// everywhere is no bucket: all of them.
const everywhere = -1

func bridge(ctx context.Context, db *pgxpool.Pool, log *slog.Logger, _ []string) error {
	b := &span{db: db, log: log, digests: map[string]digested{}}
	var loop sync.WaitGroup
	loop.Go(func() { b.loop(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/catch-up", b.catchUp)
	mux.HandleFunc("GET /v1/heads", b.heads)
	err := serve(ctx, log, mux)
	loop.Wait()
	return err
}

func (b *span) loop(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.pass(ctx, everywhere); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "not brought over", slog.String("err", err.Error()))
		}
		if _, err := b.headsOf(ctx, everywhere); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "heads not read", slog.String("err", err.Error()))
		}
		rest(ctx, 4*pause)
	}
}

// pass brings everything of a bucket over, both ways.
func (b *span) pass(ctx context.Context, bucket int) error {
	return errors.Join(b.intents(ctx, bucket), b.briefs(ctx, bucket), b.export(ctx, bucket))
}

const newBriefsSQL = `
SELECT b.matter_id::text, b.firm_id::text, b.revision, b.brief::text FROM legacy.briefs b LEFT JOIN legacy.imported i ON i.id = b.matter_id
 WHERE b.revision > coalesce(i.revision, 0) AND ($1 < 0 OR ops.matter_bucket(b.matter_id) = $1) ORDER BY b.revision`

type decided struct {
	Matter, Firm string
	Revision     int64
	Brief        string
}

func (b *span) briefs(ctx context.Context, bucket int) error {
	rows, err := b.db.Query(ctx, newBriefsSQL, bucket)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[decided])
	for _, d := range all {
		err = errors.Join(err, b.brief(ctx, d))
	}
	return err
}

func (b *span) brief(ctx context.Context, d decided) error {
	checked, err := frames.Check([]byte(d.Brief), frames.HardMax)
	if err != nil {
		return fmt.Errorf("brief of %s, revision %d: %w", d.Matter, d.Revision, err)
	}
	return b.bring(ctx, d.Matter, d.Revision, `SELECT ops.import_frame($1, $2, $3, $4::jsonb, $5, 'legacy/7', 'legacy')`,
		d.Firm, d.Matter, d.Revision, d.Brief, checked.Digest[:])
}

// bring calls the rail and notes that it did, together. Where the rail has authority
// by now there is nothing to bring: the crossing saw to that. Where a build of it is
// still alive the next pass tries again.
func (b *span) bring(ctx context.Context, id string, revision int64, sql string, args ...any) error {
	err := pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO legacy.imported VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET revision = greatest(imported.revision, EXCLUDED.revision)`, id, revision)
		return err
	})
	var said *pgconn.PgError
	if errors.As(err, &said) && (said.ConstraintName == "import_meets_a_claim" || said.ConstraintName == "write_fence_import") {
		return nil
	}
	return err
}

const newIntentsSQL = `
SELECT r.intent_id::text, r.firm_id::text, r.matter_id::text, r.payload_digest FROM legacy.requests r
 WHERE NOT EXISTS (SELECT 1 FROM legacy.imported i WHERE i.id = r.intent_id) AND ($1 < 0 OR ops.matter_bucket(r.matter_id) = $1) ORDER BY r.received_at`

type receipt struct {
	Intent, Firm, Matter string
	Digest               []byte
}

func (b *span) intents(ctx context.Context, bucket int) error {
	rows, err := b.db.Query(ctx, newIntentsSQL, bucket)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[receipt])
	for _, r := range all {
		err = errors.Join(err, b.bring(ctx, r.Intent, 0, `SELECT ops.import_intent($1, $2, $3, 'brief.regenerate', NULL, $4, 'accepted', '{"accepted_by": "legacy"}', 'legacy.requests')`,
			r.Intent, r.Firm, r.Matter, r.Digest))
	}
	return err
}

// What the rail committed while this side may still come back. A Brief is taken with
// the number that orders this side's own.
const (
	toExportSQL = `SELECT seq, firm::text, matter::text, generation, frame::text FROM ops.to_export(nullif($1, -1)::smallint, 100)`
	takeSQL     = `
INSERT INTO legacy.from_rail AS r (matter_id, firm_id, revision, generation, brief) VALUES ($1, $2, nextval('legacy.revisions'), $3, $4::jsonb)
ON CONFLICT (matter_id) DO UPDATE SET revision = EXCLUDED.revision, generation = EXCLUDED.generation, brief = EXCLUDED.brief WHERE r.generation < EXCLUDED.generation`
)

type exported struct {
	Seq          int64
	Firm, Matter string
	Generation   int64
	Frame        *string // nil: a newer one follows
}

// export takes each Brief first and says so then: killed between the two, it takes it
// again, which changes nothing.
func (b *span) export(ctx context.Context, bucket int) error {
	b.exporting.Lock()
	defer b.exporting.Unlock()
	for {
		rows, err := b.db.Query(ctx, toExportSQL, bucket)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[exported])
		if err != nil || len(all) == 0 {
			return err
		}
		var taken []int64
		for _, e := range all {
			if e.Frame != nil {
				if _, err := b.db.Exec(ctx, takeSQL, e.Matter, e.Firm, e.Generation, *e.Frame); err != nil {
					return err
				}
			}
			taken = append(taken, e.Seq)
		}
		if _, err := b.db.Exec(ctx, `SELECT ops.note_exported($1)`, taken); err != nil {
			return err
		}
	}
}

func bucketOf(scope string) (int, error) {
	name, ok := strings.CutPrefix(scope, "matters/bucket-")
	n, err := strconv.Atoi(name)
	if !ok || err != nil {
		return 0, fmt.Errorf("%.80q is no bucket of matters", scope)
	}
	return n, nil
}

// catchUp answers once everything that this side decided in a scope is at the rail, and
// everything that the rail did is here. Nobody writes there meanwhile: it is sealed.
func (b *span) catchUp(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Scope string `json:"scope"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&wanted)
	bucket, wrong := bucketOf(wanted.Scope)
	if err = errors.Join(err, wrong); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := b.pass(r.Context(), bucket); err != nil {
		b.log.WarnContext(r.Context(), "not caught up", slog.String("scope", wanted.Scope), slog.String("err", err.Error()))
		http.Error(w, "not caught up", http.StatusInternalServerError)
	}
}

type head struct {
	Firm     string `json:"firm_id"`
	Matter   string `json:"matter_id"`
	Revision int64  `json:"revision"`
	Digest   string `json:"digest"`
}

func (b *span) heads(w http.ResponseWriter, r *http.Request) {
	bucket, err := bucketOf(r.FormValue("scope"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all, err := b.headsOf(r.Context(), bucket)
	if err != nil {
		http.Error(w, "not read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}

const (
	headsSQL = `SELECT firm_id::text, matter_id::text, revision FROM legacy.current WHERE $1 < 0 OR ops.matter_bucket(matter_id) = $1`
	headSQL  = `SELECT revision, brief::text FROM legacy.current WHERE matter_id = $1`
)

// headsOf lists what this side's readers see. Only what has changed is digested.
func (b *span) headsOf(ctx context.Context, bucket int) ([]head, error) {
	rows, err := b.db.Query(ctx, headsSQL, bucket)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h head, err error) {
		err = row.Scan(&h.Firm, &h.Matter, &h.Revision)
		return h, err
	})
	if err != nil {
		return nil, err
	}
	for i, h := range all {
		if all[i].Revision, all[i].Digest, err = b.digest(ctx, h); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (b *span) digest(ctx context.Context, h head) (revision int64, digest string, err error) {
	b.mu.Lock()
	known := b.digests[h.Matter]
	b.mu.Unlock()
	if known.revision == h.Revision {
		return known.revision, known.digest, nil
	}
	var brief string
	if err := b.db.QueryRow(ctx, headSQL, h.Matter).Scan(&known.revision, &brief); err != nil {
		return 0, "", err
	}
	checked, err := frames.Check([]byte(brief), frames.HardMax)
	if err != nil {
		return 0, "", err
	}
	known.digest = hex.EncodeToString(checked.Digest[:])
	b.mu.Lock()
	b.digests[h.Matter] = known
	b.mu.Unlock()
	return known.revision, known.digest, nil
}
