package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// signer is a certificate authority that lives as long as a test.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t *testing.T, name string) *signer {
	t.Helper()
	a := &signer{file: filepath.Join(t.TempDir(), name+".pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = a.sign(t, template)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// sign makes a key and its certificate, signed by the authority or, before it has a
// certificate, by itself.
func (a *signer) sign(t *testing.T, template *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secure has a server of the authority answer for a host name, and lets rail_operator
// in over TLS only.
func secure(t *testing.T, c *local.Cluster, a *signer, host string) {
	t.Helper()
	key, cert := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(c.Dir, "data")
	writePEM(t, filepath.Join(data, "rail.crt"), "CERTIFICATE", cert)
	writePEM(t, filepath.Join(data, "rail.key"), "PRIVATE KEY", der)
	hba := "host all postgres 127.0.0.1/32 trust\nhostssl all rail_operator 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := owner.Sys().(*syscall.Stat_t); ok {
		for _, name := range []string{"rail.crt", "rail.key", "pg_hba.conf"} {
			if err := os.Chown(filepath.Join(data, name), int(s.Uid), int(s.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The connection string decides what is verified; each way in which it fails is said
// in words, and the doctor says what was not verified.
func TestConnectionIsVerifiedInFull(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{})
	db := pgtest.NewOn(t, c, pgtest.Ops())
	db.GrantRoles(t)
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	secure(t, c, ours, "localhost")
	r := rigOn(t, db)
	for _, sql := range []string{
		`ALTER SYSTEM SET ssl_cert_file = 'rail.crt'`, `ALTER SYSTEM SET ssl_key_file = 'rail.key'`, `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`,
	} {
		r.exec(sql)
	}
	dsn := func(host, rest string) string {
		return fmt.Sprintf("postgres://rail_operator@%s:%d/%s?%s", host, c.Port, db.Name, rest)
	}
	full := "sslmode=verify-full&sslrootcert="
	for _, x := range []struct {
		name, dsn string
		code      int
		words     string // in what status says
		state     string // of the doctor, where it gets in
	}{
		{"right authority and name", dsn("localhost", full+ours.file), exitOK, "", "ok"},
		{"another authority", dsn("localhost", full+others.file), exitError, "certificate signed by unknown authority", ""},
		{"another name", dsn("127.0.0.1", full+ours.file), exitError, "certificate for 127.0.0.1", ""},
		{"plain", dsn("localhost", "sslmode=disable"), exitError, "no encryption", ""},
		{"encrypted only", dsn("localhost", "sslmode=require"), exitOK, "", "warn"},
		{"authority only", dsn("127.0.0.1", "sslmode=verify-ca&sslrootcert="+ours.file), exitOK, "", "warn"},
		{"authority's file missing", dsn("localhost", full+"/nowhere.pem"), exitUsage, "failed to configure TLS", ""},
	} {
		r.env = []string{"USER=ada", "RAIL_DATABASE_URL=" + x.dsn}
		var got answer
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); { // a reload takes a moment
			if got = r.ctl("status"); got.code == x.code && strings.Contains(got.err, x.words) {
				break
			}
		}
		if got.code != x.code || !strings.Contains(got.err, x.words) {
			t.Errorf("%s: exit %d, want %d and %q: %s", x.name, got.code, x.code, x.words, got.err)
			continue
		}
		if x.state == "" {
			continue
		}
		if d := r.examined()["connection_security"]; string(d.State) != x.state || (d.Advice == "") != (d.State == "ok") {
			t.Errorf("%s: the doctor says %+v", x.name, d)
		}
	}
}
