package audit

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
)

// poolerMode tells a pooler between by the backends that answer: a session of
// PostgreSQL itself has one backend, whose process id it was told at its start. A
// pooler tells an id of its own; in session mode each session still keeps a
// backend, in transaction mode two sessions may meet the same one.
func poolerMode(ctx context.Context, db pg.DB) Diagnosis {
	unknown := Diagnosis{Check: "pooler", State: Unknown, Text: "cannot be told on this connection"}
	pool, ok := db.(*pgxpool.Pool)
	if !ok || pool.Config().MaxConns < 2 {
		return unknown
	}
	var conns []*pgx.Conn
	for range 2 {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return unknown
		}
		defer c.Release()
		conns = append(conns, c.Conn())
	}
	d, err := compareBackends(ctx, conns)
	if err != nil {
		unknown.Text = "cannot be looked at: " + pg.Text(err, 200)
		return unknown
	}
	return d
}

// compareBackends asks the sessions in turn, a few times.
func compareBackends(ctx context.Context, conns []*pgx.Conn) (Diagnosis, error) {
	owner := map[uint32]int{} // backend by the session that first met it
	last := make([]uint32, len(conns))
	direct, dealt := true, false
	for turn := range 6 {
		at := turn % len(conns)
		var pid uint32
		if err := conns[at].QueryRow(ctx, `SELECT pg_backend_pid()::bigint`).Scan(&pid); err != nil {
			return Diagnosis{}, fmt.Errorf("ask for the backend: %w", err)
		}
		first, met := owner[pid]
		if !met {
			owner[pid] = at
		}
		dealt = dealt || (met && first != at) || (last[at] != 0 && last[at] != pid)
		direct = direct && pid == conns[at].PgConn().PID()
		last[at] = pid
	}
	d := poolerDiagnosis(direct, dealt)
	d.Check = "pooler"
	return d, nil
}

func poolerDiagnosis(direct, dealt bool) Diagnosis {
	switch {
	case dealt:
		return Diagnosis{
			State: Warn, Text: "a transaction-mode pooler stands between: sessions do not keep their backend",
			Advice: "migrate on a direct connection, and set timeouts on the role: such a pooler drops those of the session",
		}
	case !direct:
		return Diagnosis{State: OK, Text: "a pooler stands between, whose sessions keep their backend"}
	}
	return Diagnosis{State: OK, Text: "sessions reach PostgreSQL itself"}
}

// connectionSecurity looks at one session as it is, not at what was asked for: with
// sslmode=prefer the same string may lead to either. Beyond a pooler it sees nothing.
func connectionSecurity(ctx context.Context, db pg.DB) Diagnosis {
	d := Diagnosis{Check: "connection_security", State: Unknown, Text: "cannot be told on this connection"}
	pool, ok := db.(*pgxpool.Pool)
	if !ok {
		return d
	}
	c, err := pool.Acquire(ctx)
	if err != nil {
		d.Text = "cannot be looked at: " + pg.Text(err, 200)
		return d
	}
	defer c.Release()
	d.State, d.Text = securityOf(c.Conn().PgConn().Conn(), c.Conn().Config().TLSConfig)
	if d.State != OK {
		d.Advice = "set sslmode=verify-full and sslrootcert=FILE in the connection string, and accept only hostssl in pg_hba.conf"
	}
	return d
}

// securityOf judges a connection by what was verified when it was made.
func securityOf(conn net.Conn, cfg *tls.Config) (State, string) {
	secured, ok := conn.(*tls.Conn)
	switch {
	case !ok && staysHere(conn.RemoteAddr()):
		return OK, "without TLS, and does not leave this machine"
	case !ok:
		return Warn, "without TLS: whoever stands between reads and changes what is sent"
	case len(secured.ConnectionState().VerifiedChains) > 0:
		return OK, fmt.Sprintf("%s, the server's certificate and its name are verified", tls.VersionName(secured.ConnectionState().Version))
	case cfg != nil && cfg.VerifyPeerCertificate != nil:
		return Warn, "TLS, but the name in the server's certificate is not verified: any server of that authority would do"
	}
	return Warn, "TLS, but nobody verified whose server answers"
}

func staysHere(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // what is not TCP is a socket in a folder
}
