package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/authority/api"
	"briefrail/internal/rail"
)

func digestOf(t *testing.T, i asked) (d [32]byte) {
	t.Helper()
	if _, err := hex.Decode(d[:], []byte(i.Digest)); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTokens(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	for _, token := range []string{"", "wrong", forFirm + "x", forFirm[:len(forFirm)-1], strings.ToUpper(forFirm)} {
		a := r.post(t, token, i)
		a.problem(t, http.StatusUnauthorized, "unauthenticated")
		if a.header.Get("WWW-Authenticate") == "" {
			t.Error("says not how to come in")
		}
	}
	if a := r.do(t, "", http.MethodGet, r.path("authority"), "", "Authorization", "Basic "+forFirm); a.status != http.StatusUnauthorized {
		t.Errorf("another scheme: %d", a.status)
	}
	r.post(t, forOther, i).problem(t, http.StatusForbidden, "forbidden")
	r.get(t, forOther, r.path("authority")).problem(t, http.StatusForbidden, "forbidden")
	if a := r.post(t, forFirm, i); a.status != http.StatusAccepted {
		t.Fatal(a.raw)
	}
	r.get(t, forOther, "/v1/intents/"+i.ID).problem(t, http.StatusNotFound, "no-receipt")
}

// A token that is taken out of the file is out at once, one that is put in is in, and a
// file that cannot be read or understood lets nobody in.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.setTokens("all another-token-of-all-1\n")
	r.get(t, forAll, r.path("authority")).problem(t, http.StatusUnauthorized, "unauthenticated")
	if a := r.get(t, "another-token-of-all-1", r.path("authority")); a.status != http.StatusOK {
		t.Errorf("the new token: %d", a.status)
	}
	r.setTokens("all another-token-of-all-1\nbroken\n")
	r.get(t, "another-token-of-all-1", r.path("authority")).problem(t, http.StatusServiceUnavailable, "unavailable")
	if strings.Contains(r.log.String(), "another-token") {
		t.Error("a token is in the log")
	}
}

func TestFilesOfTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	firm := rail.NewUUID().String()
	for text, want := range map[string]string{
		"":                               "no token",
		"# only a comment\n":             "no token",
		"all short":                      "line 1 has a token of fewer than 16",
		"all":                            "line 1 is not a firm's id",
		"all a-good-token-of-all-1 more": "line 1 is not a firm's id",
		"everybody a-good-token-of-all":  "line 1 begins with neither",
		"00000000-0000-0000-0000-000000000000 a-good-token-of-all":             "line 1 begins with neither",
		"all a-good-token-of-all\n\n" + firm + " a-good-token-of-all":          "line 3 has the token of an earlier line",
		"all a-good-tökén-of-all-1":                                            "no header carries",
		"# a\nall a-good-token-of-all\n" + strings.ToUpper(firm) + "x a-token": "line 3",
	} {
		_, err := api.New(api.Options{Tokens: func() (string, error) { return text, nil }, Registerer: prometheus.NewRegistry()})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-good") {
			t.Errorf("%q: got %v, want %q and no token", text, err, want)
		}
	}
	if _, err := api.New(api.Options{Tokens: func() (string, error) { return "", errors.New("gone") }, Registerer: prometheus.NewRegistry()}); err == nil {
		t.Error("starts without a file")
	}
}

// hostile is what nobody should be able to do harm with, and what it is answered.
func hostile(r *rig) []struct {
	name, body, kind string
	status           int
} {
	const digest = "abababababababababababababababababababababababababababababababab"
	id := rail.NewUUID().String()
	with := func(more string) string {
		return `{"intent_id":"` + id + `","kind":"brief.regenerate","payload_digest":"` + digest + `"` + more + `}`
	}
	return []struct {
		name, body, kind string
		status           int
	}{
		{"nothing", " ", "malformed", 400},
		{"no object", `[1]`, "malformed", 400},
		{"null", `null`, "malformed", 400},
		{"no JSON", `{"intent_id"`, "malformed", 400},
		{"cut short", with("")[:90], "malformed", 400},
		{"two values", with("") + with(""), "malformed", 400},
		{"an unknown field", with(`,"x":1`), "malformed", 400},
		{"a field twice", with(`,"kind":"brief.regenerate"`), "malformed", 400},
		{"a field in other letters", with(`,"Epoch":1`), "malformed", 400},
		{"invalid UTF-8", with(",\"epoch\":\"\xff\xfe\""), "malformed", 400},
		{"a NUL", with(",\"epoch\":\"\x00\""), "malformed", 400},
		{"an epoch of text", with(`,"epoch":"1"`), "malformed", 400},
		{"an epoch of a fraction", with(`,"epoch":1.5`), "malformed", 400},
		{"an epoch too large", with(`,"epoch":99999999999999999999`), "malformed", 400},
		{"no epoch that ever was", with(`,"epoch":0`), "malformed", 400},
		{"a revision below zero", with(`,"expected_revision":-1`), "malformed", 400},
		{"deep", with(`,"epoch":` + strings.Repeat("[", 6000)), "malformed", 400},
		{"no id", strings.Replace(with(""), id, "", 1), "malformed", 400},
		{"an id that is none", strings.Replace(with(""), id, id+"'; DROP TABLE x", 1), "malformed", 400},
		{"the nil id", strings.Replace(with(""), id, rail.UUID{}.String(), 1), "malformed", 400},
		{"another kind", strings.Replace(with(""), "regenerate", "destroy", 1), "malformed", 400},
		{"half a digest", strings.Replace(with(""), digest, digest[:32], 1), "malformed", 400},
		{"a digest of other letters", strings.Replace(with(""), "abab", "zzzz", 1), "malformed", 400},
		{"a long digest", strings.Replace(with(""), digest, digest+"ab", 1), "malformed", 400},
		{"huge", with(`,"x":"` + strings.Repeat("a", 1<<20) + `"`), "too-large", 413},
		{"white space without end", strings.Repeat(" ", 1<<20), "too-large", 413},
	}
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range hostile(r) {
		a := r.do(t, forFirm, http.MethodPost, r.path("intents"), c.body)
		if a.problem(t, c.status, c.kind); t.Failed() {
			t.Fatalf("%s", c.name)
		}
		if strings.Contains(a.raw, "abab") || strings.Contains(a.raw, "DROP") {
			t.Errorf("%s: the answer repeats what was sent: %s", c.name, a.raw)
		}
	}
	body := `{"intent_id":"` + rail.NewUUID().String() + `","kind":"brief.regenerate","payload_digest":"` + strings.Repeat("ab", 32) + `"}`
	for name, header := range map[string][2]string{
		"another type": {"Content-Type", "text/plain"}, "a type that is none": {"Content-Type", ";;"}, "compressed": {"Content-Encoding", "gzip"},
	} {
		if a := r.do(t, forFirm, http.MethodPost, r.path("intents"), body, header[0], header[1]); a.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if n := r.number(t, `SELECT count(*) FROM ops.write_intents`); n != 0 {
		t.Errorf("%d intents were received", n)
	}
	if log := r.log.String(); strings.Contains(log, "abab") || strings.Contains(log, "DROP") {
		t.Errorf("a body is in the log: %s", log)
	}
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	none := rail.UUID{}.String()
	for path, want := range map[string]string{
		"/":                               "not-found",
		"/v1/intents":                     "not-found",
		"/v2/intents/" + none:             "not-found",
		"/v1/intents/x":                   "malformed",
		"/v1/intents/" + none:             "malformed",
		"/v1/intents/%ff":                 "malformed",
		"/v1/firms/x/matters/y/authority": "malformed",
		"/v1/firms/" + none + "/matters/" + none + "/authority": "malformed",
		"/v1/intents/" + rail.NewUUID().String():                "no-receipt",
	} {
		status := map[string]int{"not-found": 404, "no-receipt": 404, "malformed": 400}[want]
		r.get(t, forAll, path).problem(t, status, want)
	}
	for path, allow := range map[string]string{r.path("intents"): "POST", r.path("authority"): "GET, HEAD", "/v1/intents/" + none: "GET, HEAD"} {
		a := r.do(t, forAll, http.MethodDelete, path, "")
		if a.problem(t, http.StatusMethodNotAllowed, "method-not-allowed"); a.header.Get("Allow") != allow {
			t.Errorf("%s allows %q", path, a.header.Get("Allow"))
		}
	}
}

// A reader is told epoch and revision, and a cache cannot take one epoch's answer for
// another's.
func TestAuthorityIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.land(t)
	r.old(t, "old-house", "http://old.example")
	r.fence(t, "rail")
	a := r.get(t, forFirm, r.path("authority"))
	a.announces(t, 1, 1)
	tag := a.header.Get("ETag")
	if a.status != http.StatusOK || !strings.HasPrefix(tag, `"1-1-`) || !strings.Contains(a.raw, `"writer":"rail"`) || !strings.Contains(a.raw, `"state":"open"`) {
		t.Errorf("got %d %s, ETag %s", a.status, a.raw, tag)
	}
	if head := r.do(t, forFirm, http.MethodHead, r.path("authority"), ""); head.status != http.StatusOK || head.raw != "" || head.header.Get("ETag") != tag {
		t.Errorf("HEAD: %d %q", head.status, head.raw)
	}
	for _, header := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		same := r.do(t, forFirm, http.MethodGet, r.path("authority"), "", "If-None-Match", header)
		if same.status != http.StatusNotModified || same.raw != "" {
			t.Errorf("%s: %d %q", header, same.status, same.raw)
		}
		same.announces(t, 1, 1)
	}
	r.land(t)
	r.do(t, forFirm, http.MethodGet, r.path("authority"), "", "If-None-Match", tag).announces(t, 1, 2)
	r.cross(t, "old-house")
	r.cross(t, "rail")
	b := r.do(t, forFirm, http.MethodGet, r.path("authority"), "", "If-None-Match", tag)
	if b.announces(t, 3, 2); b.status != http.StatusOK || !strings.HasPrefix(b.header.Get("ETag"), `"3-2-`) {
		t.Errorf("after two crossings: %d %s", b.status, b.header.Get("ETag"))
	}
}

func TestAnswersAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	r.post(t, forFirm, i)
	r.post(t, forFirm, i)
	r.post(t, "", i)
	for answer, n := range map[string]float64{"accepted": 1, "replayed": 1, "unauthenticated": 1, "closing": 0} {
		if got := r.counted(t, answer); got != n {
			t.Errorf("%s: %v, want %v", answer, got, n)
		}
	}
	if n, err := testutil.GatherAndCount(r.reg, "rail_api_request_duration_seconds"); err != nil || n != 1 {
		t.Errorf("durations: %d, %v", n, err)
	}
	log := r.log.String()
	for _, part := range []string{`"intent_id":"` + i.ID + `"`, `"authority_epoch":1`, `"outcome":"accepted"`, `"matter_id":"` + r.key.Matter.String() + `"`, `"revision":0`} {
		if !strings.Contains(log, part) {
			t.Errorf("the log has no %s: %s", part, log)
		}
	}
	if strings.Contains(log, forFirm) || strings.Contains(log, i.Digest) {
		t.Errorf("a token or a payload's digest is in the log: %s", log)
	}
}

// counted is the number of requests that got an answer.
func (r *rig) counted(t *testing.T, answer string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rail_api_requests_total" && m.GetLabel()[0].GetValue() == answer {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Errorf("%s is not counted", answer)
	return 0
}

// A database that is away is a 503 that asks to look for the receipt, and no verdict.
func TestTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	left := httptest.NewServer(http.NotFoundHandler())
	left.Close()
	pool, err := pgxpool.New(t.Context(), "postgres://rail@"+left.Listener.Addr().String()+"/rail")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	o := r.options()
	o.DB, o.Registerer = pool, prometheus.NewRegistry()
	r.serve(t, o)
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusServiceUnavailable, "unavailable")
	if a.header.Get(api.EpochHeader) != "" || a.header.Get("Retry-After") == "" || !strings.Contains(a.fault.Detail, "receipt") || a.fault.IntentID != i.ID {
		t.Errorf("got %s", a.raw)
	}
	r.get(t, forFirm, "/v1/intents/"+i.ID).problem(t, http.StatusServiceUnavailable, "unavailable")
	r.get(t, forFirm, r.path("authority")).problem(t, http.StatusServiceUnavailable, "unavailable")
}

func TestTLSAndTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chain, key := selfSigned(t)
	o := r.options()
	o.Registerer = prometheus.NewRegistry()
	o.Certificate = func() (string, string, error) { return chain, key, nil }
	s, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(chain))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+r.path("authority"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+forFirm)
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("over TLS: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	o.Certificate = func() (string, string, error) { return chain, "no key", nil }
	if _, err := api.New(o); err == nil || strings.Contains(err.Error(), "no key") {
		t.Errorf("a certificate without its key: %v", err)
	}
}

func selfSigned(t *testing.T) (chain, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
}
