// Command legacy is what a firm had before the rail: a table with a boolean, and a loop
// that rebuilds whatever has it set. It owns schema legacy and nothing of the rail; two
// lines of it are new, those that ask ops.admit_matter before they write. It decides for
// a matter only while the fence says so, and promises nothing about a matter elsewhere:
// its boolean stays set, for the day on which the matter might come back.
//
//	legacy migrate        makes schema legacy and its roles (schema.sql)
//	legacy work           the loop, and an address at which people ask for a Brief
//	legacy bridge         brings its Briefs to the rail, and the rail's back (bridge.go)
//	legacy script MATTER  what somebody once wrote to mend Briefs by hand
//
// The database is named by LEGACY_DATABASE_URL, the build service by LEGACY_BUILDER_URL.
package main

import (
	"bytes"
	"context"
	_ "embed" // schema.sql
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "legacy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verbs := map[string]func(context.Context, *pgxpool.Pool, *slog.Logger, []string) error{"migrate": migrate, "work": work, "bridge": bridge, "script": script}
	if len(args) == 0 || verbs[args[0]] == nil {
		return errors.New("usage: legacy migrate | work | bridge | script MATTER")
	}
	pool, err := pgxpool.New(ctx, os.Getenv("LEGACY_DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("LEGACY_DATABASE_URL: %w", err)
	}
	defer pool.Close()
	return verbs[args[0]](ctx, pool, slog.New(slog.NewJSONHandler(os.Stderr, nil)), args[1:])
}

//go:embed schema.sql
var schema string // constant: the text of the file

func migrate(ctx context.Context, db *pgxpool.Pool, _ *slog.Logger, _ []string) error {
	_, err := db.Exec(ctx, schema)
	return err
}

// Loops of one process; each has its share of the matters, so that no two build one.
const loops = 3

// pause is how long a loop rests when nothing is to be done.
const pause = 50 * time.Millisecond

type worker struct {
	db      *pgxpool.Pool
	builder string
	client  *http.Client
	log     *slog.Logger
}

func work(ctx context.Context, db *pgxpool.Pool, log *slog.Logger, _ []string) error {
	w := &worker{db: db, builder: os.Getenv("LEGACY_BUILDER_URL"), client: &http.Client{Timeout: time.Minute}, log: log}
	var all sync.WaitGroup
	for share := range loops {
		all.Go(func() { w.loop(ctx, share) })
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/regenerate", w.regenerate)
	err := serve(ctx, log, mux)
	all.Wait()
	return err
}

func (w *worker) loop(ctx context.Context, share int) {
	for ctx.Err() == nil {
		did, err := w.once(ctx, share)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "not rebuilt", slog.String("err", err.Error()))
		}
		if !did || err != nil {
			rest(ctx, pause)
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type matter struct {
	id, firm string
	asked    time.Time
}

// A matter that somebody else decides for is left alone, with its boolean as it is.
const nextSQL = `
SELECT m.matter_id::text, m.firm_id::text, m.asked_at FROM legacy.matters m CROSS JOIN LATERAL ops.matter_authority(m.matter_id) a
 WHERE m.needs_rebuild AND a.writer = 'legacy' AND a.state = 'open' AND abs(hashtext(m.matter_id::text)) % $1 = $2
 ORDER BY m.asked_at LIMIT 1`

// once rebuilds the matter that has waited longest. What is refused is asked for again:
// its boolean was cleared in the same transaction, or not at all.
func (w *worker) once(ctx context.Context, share int) (bool, error) {
	var m matter
	err := w.db.QueryRow(ctx, nextSQL, loops, share).Scan(&m.id, &m.firm, &m.asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	brief, err := w.build(ctx, m)
	if err != nil {
		return false, err
	}
	return true, pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error { return store(ctx, tx, m, brief) })
}

func store(ctx context.Context, tx pgx.Tx, m matter, brief []byte) error {
	if _, err := tx.Exec(ctx, `SELECT ops.admit_matter($1, 'legacy')`, m.id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
INSERT INTO legacy.briefs (matter_id, firm_id, revision, brief) VALUES ($1, $2, nextval('legacy.revisions'), $3)
ON CONFLICT (matter_id) DO UPDATE SET revision = EXCLUDED.revision, brief = EXCLUDED.brief, built_at = EXCLUDED.built_at`, m.id, m.firm, string(brief))
	if err != nil {
		return err
	}
	// a document that came since the matter was picked has set asked_at: once more, then
	_, err = tx.Exec(ctx, `UPDATE legacy.matters SET needs_rebuild = false WHERE matter_id = $1 AND asked_at = $2`, m.id, m.asked)
	return err
}

// build has the build service make a Brief, and brings it into the shape that this
// worker always had: a format of its own, and no assertions.
func (w *worker) build(ctx context.Context, m matter) ([]byte, error) {
	var run string
	if err := w.db.QueryRow(ctx, `SELECT gen_random_uuid()::text`).Scan(&run); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{
		"firm_id": m.firm, "matter_id": m.id, "generation": 1, "run_id": run, "attempt": 1, "retry_of": nil,
		"deadline": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.builder, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", run)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("build service: %s", res.Status)
	}
	return shape(res.Body)
}

func shape(answer io.Reader) ([]byte, error) {
	d := json.NewDecoder(answer)
	d.UseNumber()
	var said struct {
		Frame map[string]any `json:"frame"`
	}
	if err := d.Decode(&said); err != nil {
		return nil, fmt.Errorf("build service: %w", err)
	}
	delete(said.Frame, "assertions")
	if counts, ok := said.Frame["counts"].(map[string]any); ok {
		delete(counts, "assertions")
	}
	said.Frame["format"] = "legacy-7"
	return json.Marshal(said.Frame)
}

// asked is what a person sends: the same id and digest however often it is sent.
type asked struct {
	Intent string `json:"intent_id"`
	Firm   string `json:"firm_id"`
	Matter string `json:"matter_id"`
	Digest string `json:"payload_digest"` // SHA-256 in hexadecimal
}

func (w *worker) regenerate(res http.ResponseWriter, req *http.Request) {
	var a asked
	err := json.NewDecoder(http.MaxBytesReader(res, req.Body, 4096)).Decode(&a)
	digest, wrong := hex.DecodeString(a.Digest)
	if err != nil || wrong != nil || len(digest) != 32 {
		http.Error(res, `{"error":"want intent_id, firm_id, matter_id and payload_digest"}`, http.StatusBadRequest)
		return
	}
	err = pgx.BeginFunc(req.Context(), w.db, func(tx pgx.Tx) error { return note(req.Context(), tx, a, digest) })
	refuse(res, err)
}

func note(ctx context.Context, tx pgx.Tx, a asked, digest []byte) error {
	if _, err := tx.Exec(ctx, `SELECT ops.admit_matter($1, 'legacy')`, a.Matter); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO legacy.requests (intent_id, firm_id, matter_id, payload_digest) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, a.Intent, a.Firm, a.Matter, digest)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE legacy.matters SET needs_rebuild = true, asked_at = clock_timestamp() WHERE matter_id = $1`, a.Matter)
	return err
}

// refuse answers. What the fence says is passed on as it stands: where authority is
// now, and when to come back.
func refuse(res http.ResponseWriter, err error) {
	var said *pgconn.PgError
	res.Header().Set("Content-Type", "application/json")
	switch {
	case err == nil:
		fmt.Fprintln(res, `{"outcome":"accepted"}`)
	case errors.As(err, &said) && said.Code == "RF503":
		res.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(res, said.Detail)
	case errors.As(err, &said) && (said.Code == "RF409" || said.Code == "RF403"):
		res.WriteHeader(http.StatusConflict)
		fmt.Fprintln(res, said.Detail)
	case errors.As(err, &said) && said.Code == "RF410":
		res.WriteHeader(http.StatusGone)
		fmt.Fprintln(res, said.Detail)
	default:
		http.Error(res, `{"error":"failed"}`, http.StatusInternalServerError)
	}
}

// script is what is still run by hand somewhere: it asks nobody, and the fence stands
// before the table all the same.
func script(ctx context.Context, db *pgxpool.Pool, _ *slog.Logger, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: legacy script MATTER")
	}
	_, err := db.Exec(ctx, `UPDATE legacy.briefs SET brief = brief || '{"title": "mended by hand"}', revision = nextval('legacy.revisions') WHERE matter_id = $1`, args[0])
	return err
}

// serve answers on a port of its own choosing until ctx ends, and logs where.
func serve(ctx context.Context, log *slog.Logger, mux *http.ServeMux) error {
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "serving", slog.String("listen", l.Addr().String()))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return srv.Close()
}
