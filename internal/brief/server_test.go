package brief

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const (
	firmID   = "11111111-1111-4111-8111-111111111111"
	matterID = "22222222-2222-4222-8222-222222222222"
	runID    = "33333333-3333-4333-8333-333333333333"
)

func body(pairs ...string) string {
	fields := map[string]string{
		"firm_id": `"` + firmID + `"`, "matter_id": `"` + matterID + `"`, "generation": "7", "run_id": `"` + runID + `"`,
		"attempt": "1", "retry_of": "null", "deadline": `"2026-01-31T12:00:00Z"`,
	}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "" {
			delete(fields, pairs[i])
		}
	}
	var out []string
	for k, v := range fields {
		out = append(out, `"`+k+`":`+v)
	}
	return "{" + strings.Join(out, ",") + "}"
}

func newServer(pool *pgxpool.Pool, delay time.Duration) *Server {
	return NewServer(ServerOptions{Pool: pool, Log: slog.New(slog.DiscardHandler), Delay: delay})
}

// post sends a build request straight into the handler.
func post(ctx context.Context, s *Server, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/build", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", runID)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestBuildOverHTTP(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	key, err := rail.ParseKey(firmID + "/" + matterID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ingest(t.Context(), db.Pool, key, Samples(), IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	w := post(t.Context(), newServer(db.Pool, 0), body("surprise", "[1]"))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var got struct {
		response
		Frame json.RawMessage `json:"frame"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := response{Key: key, Generation: 7, SchemaVersion: "brief/1", BuilderVersion: BuilderVersion, Usage: usage{CostUSD: "0.00"}}
	if diff := cmp.Diff(want, got.response); diff != "" {
		t.Error(diff)
	}
	var stored []byte
	if err := db.Pool.QueryRow(t.Context(), `SELECT $1::jsonb`, []byte(got.Frame)).Scan(&stored); err != nil {
		t.Errorf("jsonb does not take the frame: %v", err)
	}
	if again := post(t.Context(), newServer(db.Pool, 0), body()); again.Body.String() != w.Body.String() {
		t.Error("the same record gave other bytes")
	}
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		body   string
		header []string
		status int
		field  string
	}{
		{"no JSON", "hello", nil, 400, ""},
		{"empty", "", nil, 400, ""},
		{"array", "[]", nil, 400, ""},
		{"cut off", `{"firm_id":`, nil, 400, ""},
		{"second value", body() + "{}", nil, 400, ""},
		{"twice", `{"firm_id":"a","firm_id":"b"}`, nil, 400, `"firm_id"`},
		{"other spelling", body("matter_id", "", "Matter_ID", `"`+matterID+`"`), nil, 400, "matter_id"},
		{"no firm", body("firm_id", ""), nil, 400, "firm_id"},
		{"firm is null", body("firm_id", "null"), nil, 400, "firm_id"},
		{"firm is a number", body("firm_id", "7"), nil, 400, "firm_id"},
		{"matter in braces", body("matter_id", `"{`+matterID+`}"`), nil, 400, "matter_id"},
		{"nil run", body("run_id", `"00000000-0000-0000-0000-000000000000"`), nil, 400, "run_id"},
		{"retry_of is wrong", body("retry_of", `"x"`), nil, 400, "retry_of"},
		{"generation zero", body("generation", "0"), nil, 400, "generation"},
		{"generation is no whole number", body("generation", "1.5"), nil, 400, "generation"},
		{"generation too big", body("generation", "9223372036854775808"), nil, 400, "generation"},
		{"attempt as text", body("attempt", `"1"`), nil, 400, "attempt"},
		{"deadline without zone", body("deadline", `"2026-01-31T12:00:00"`), nil, 400, "deadline"},
		{"other key", body(), []string{"Idempotency-Key", firmID}, 400, "Idempotency-Key"},
		{"not JSON by type", body(), []string{"Content-Type", "text/plain"}, 415, "Content-Type"},
		{"too large", body("x", `"`+strings.Repeat("x", maxRequestBytes)+`"`), nil, 413, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := post(t.Context(), newServer(nil, 0), c.body, c.header...)
			var f failure
			if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil {
				t.Fatal(err)
			}
			if w.Code != c.status || f.Error.Field != c.field || f.Error.Message == "" {
				t.Errorf("%d %+v", w.Code, f.Error)
			}
		})
	}
}

func TestDatabaseAwayIsTransient(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pg.Options{DSN: "postgres://nobody@127.0.0.1:1/none", ConnectTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := newServer(pool, 0)
	w := post(t.Context(), s, body())
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "database_unavailable") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if code, _ := get(t, s, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz %d", code)
	}
	if code, _ := get(t, s, "/livez"); code != http.StatusOK {
		t.Errorf("livez %d", code)
	}
}

// A restart of the database does not cost a build its attempt; an error that stays, and
// one that has nothing to do with it, is told.
func TestABuildOutlastsARestartOfTheDatabase(t *testing.T) {
	t.Parallel()
	away, broken := &pgconn.PgError{Code: "57P01"}, errors.New("broken")
	for name, c := range map[string]struct {
		errs  []error // of the calls; the last one stays
		calls int
		want  error
	}{
		"back in time":   {[]error{away, away, nil}, 3, nil},
		"away too long":  {[]error{away}, 5, away}, // at 0, 250, 500, 750 and 1000 ms
		"something else": {[]error{broken}, 1, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				_, err := outlast(t.Context(), time.Second, func() (Frame, error) {
					calls++
					return Frame{}, c.errs[min(calls, len(c.errs))-1]
				})
				if !errors.Is(err, c.want) || calls != c.calls {
					t.Errorf("%d calls, %v", calls, err)
				}
			})
		})
	}
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func TestReady(t *testing.T) {
	t.Parallel()
	if code, text := get(t, newServer(newDB(t).Pool, 0), "/readyz"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

func TestDelayEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(db.Pool, time.Hour)
	code := make(chan int)
	go func() { code <- post(ctx, s, body()).Code }()
	cancel()
	if got := <-code; got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
}

func testRequest() Request {
	return Request{Key: rail.Key{Firm: rail.UUID{1}, Matter: rail.UUID{2}}, Generation: 1, Run: rail.UUID{3}, Attempt: 1}
}

func TestFlightsShareOneBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, builds := newFlights(), 0
		build := func(context.Context) ([]byte, error) {
			builds++
			time.Sleep(time.Second)
			return []byte("answer"), nil
		}
		answers := make(chan string, 3)
		for range 3 {
			go func() {
				b, err := f.do(t.Context(), testRequest(), build)
				answers <- string(b) + errText(err)
			}()
		}
		for range 3 {
			if got := <-answers; got != "answer" {
				t.Error(got)
			}
		}
		if _, err := f.do(t.Context(), testRequest(), build); err != nil || builds != 1 {
			t.Errorf("%d builds, %v", builds, err)
		}
		other := testRequest()
		other.Generation++
		if _, err := f.do(t.Context(), other, build); !errors.Is(err, errOtherRequest) {
			t.Errorf("another request under the same run_id: %v", err)
		}
		time.Sleep(keepAnswers)
		if _, err := f.do(t.Context(), testRequest(), build); err != nil || builds != 2 {
			t.Errorf("after %s: %d builds, %v", keepAnswers, builds, err)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestFlightEndsWithItsLastWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlights()
		ended := make(chan error, 1)
		build := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() { _, _ = f.do(ctx, testRequest(), build) }()
		}
		synctest.Wait()
		stopFirst()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the build ended with its first waiter: %v", err)
		default:
		}
		stopSecond()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if len(f.byRun) != 0 || f.bytes != 0 {
			t.Errorf("%d flights are left", len(f.byRun))
		}
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	t.Parallel()
	f, builds := newFlights(), 0
	fail := func(context.Context) ([]byte, error) { builds++; return nil, context.DeadlineExceeded }
	for range 2 {
		if _, err := f.do(t.Context(), testRequest(), fail); err == nil {
			t.Error("no error")
		}
	}
	if builds != 2 {
		t.Errorf("%d builds", builds)
	}
}

func TestKeptAnswersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFlights()
	big := make([]byte, keepAnswerMax/4)
	for i := range 10 {
		req := testRequest()
		req.Run[15] = byte(i + 1)
		if _, err := f.do(t.Context(), req, func(context.Context) ([]byte, error) { return big, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.kept) != 4 || len(f.byRun) != 4 || f.bytes != keepAnswerMax {
		t.Errorf("%d kept, %d known, %d bytes", len(f.kept), len(f.byRun), f.bytes)
	}
}
