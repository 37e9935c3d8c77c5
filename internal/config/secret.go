package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxSecret bounds a secret file, in bytes.
const maxSecret = 64 << 10

// SecretFile is the absolute path of a file that holds one secret, or "" for
// none. The secret is read when it is needed, so that it can be rotated under a
// running process.
type SecretFile string

// Read returns the file's text without its trailing line end, or "" when no file
// is set. Its errors name neither the secret nor the path, since a secret has
// been given as a path before.
func (f SecretFile) Read() (string, error) { return f.read(0) }

// ReadPrivate is Read for a file that lets people in: one that strangers can read, or
// that others than its owner can change, is refused.
func (f SecretFile) ReadPrivate() (string, error) { return f.read(0o027) }

// read refuses a file with any of the forbidden permissions.
func (f SecretFile) read(forbidden fs.FileMode) (string, error) {
	if f == "" {
		return "", nil
	}
	file, err := os.Open(string(f))
	if err != nil {
		return "", withoutPath(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", withoutPath(err)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return "", fmt.Errorf("secret file has the mode %04o, which lets others in: chmod 0440 or 0600", mode)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", withoutPath(err)
	}
	b = bytes.TrimRight(b, "\r\n")
	switch {
	case len(b) == 0:
		return "", errors.New("secret file is empty")
	case len(b) > maxSecret:
		return "", errors.New("secret file is larger than " + formatSize(maxSecret))
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", errors.New("secret file is not text")
	}
	return string(b), nil
}

func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("secret file cannot be read: %w", err)
}

// ErrNoDatabase is returned by DSN when nothing says where PostgreSQL is.
var ErrNoDatabase = errors.New("no database: set database.url (RAIL_DATABASE_URL) or database.url_file (RAIL_DATABASE_URL_FILE)")

// DSN returns the connection string, read again from its file where it has one.
func (d DatabaseSettings) DSN() (string, error) {
	switch {
	case d.URLFile != "":
		s, err := d.URLFile.Read()
		if err != nil {
			return "", fmt.Errorf("database.url_file: %w", err)
		}
		return s, nil
	case d.URL != "":
		return d.URL, nil
	}
	return "", ErrNoDatabase
}

// Password returns the password of its file, read again, or "" when the
// connection string is all there is. Call it before each connect.
func (d DatabaseSettings) Password() (string, error) {
	s, err := d.PasswordFile.Read()
	if err != nil {
		return "", fmt.Errorf("database.password_file: %w", err)
	}
	return s, nil
}

const hidden = "(hidden)"

// redactDSN shows user, host and database of a connection URL that cannot be
// misread, and nothing of any other: a password with an unescaped / or # would
// otherwise spill into host or path.
func redactDSN(dsn string) string {
	u, err := url.Parse(dsn)
	plain := regexp.MustCompile(`\A[A-Za-z0-9_.:-]*\z`)
	switch {
	case dsn == "":
		return ""
	case err != nil, u.Scheme != "postgres" && u.Scheme != "postgresql", u.Opaque != "", u.Fragment != "":
		return hidden
	case !plain.MatchString(u.Host), !plain.MatchString(strings.TrimPrefix(u.Path, "/")), strings.Contains(u.RawQuery, "@"):
		return hidden
	case u.User == nil:
		return hidden
	case !plain.MatchString(u.User.Username()):
		return hidden
	}
	return u.Scheme + "://" + u.User.Username() + "@" + u.Host + u.Path + " (rest hidden)"
}
