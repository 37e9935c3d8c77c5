package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"briefrail/internal/rail"
)

// shortestToken is how many characters a token has at least: it is all that keeps
// strangers out.
const shortestToken = 16

// caller is whom a token stands for.
type caller struct {
	all  bool
	firm rail.UUID
}

func (c caller) may(firm rail.UUID) bool { return c.all || c.firm == firm }

// known are the tokens of one reading of the file, by their hash: how long a look-up
// takes then says nothing of how much of a token was right.
type known struct {
	text string
	by   map[[sha256.Size]byte]caller
}

// tokens follows the file of tokens.
type tokens struct {
	read func() (string, error)
	last atomic.Pointer[known]
}

// now reads the file; it is taken apart only where it differs from the last time.
func (t *tokens) now() (*known, error) {
	if t.read == nil {
		return nil, errors.New("file of tokens: there is none")
	}
	text, err := t.read()
	if err != nil {
		return nil, fmt.Errorf("file of tokens: %w", err)
	}
	if k := t.last.Load(); k != nil && k.text == text {
		return k, nil
	}
	by, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("file of tokens: %w", err)
	}
	k := &known{text, by}
	t.last.Store(k)
	return k, nil
}

// parseTokens reads lines of "FIRM TOKEN" or "all TOKEN"; empty ones and those that
// begin with # are skipped. A firm may have several, as during a change of tokens. Its
// errors name the line and nothing that is in it.
func parseTokens(text string) (map[[sha256.Size]byte]caller, error) {
	by := map[[sha256.Size]byte]caller{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		c, token, err := parseToken(line)
		sum := sha256.Sum256([]byte(token))
		if _, twice := by[sum]; err == nil && twice {
			err = errors.New("has the token of an earlier line")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d %w", i+1, err)
		}
		by[sum] = c
	}
	if len(by) == 0 {
		return nil, errors.New("has no token: write a line with the firm's id, or all, a blank, and the token")
	}
	return by, nil
}

func parseToken(line string) (c caller, token string, err error) {
	words := strings.Fields(line)
	if len(words) != 2 {
		return c, "", errors.New("is not a firm's id, or all, a blank, and a token")
	}
	if c.all = words[0] == "all"; !c.all {
		if c.firm, err = rail.ParseUUID(words[0]); err != nil || c.firm.IsZero() {
			return c, "", errors.New("begins with neither a firm's id nor the word all")
		}
	}
	if strings.ContainsFunc(words[1], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, "", errors.New("has a token with characters that no header carries: use visible ASCII")
	}
	if len(words[1]) < shortestToken {
		return c, "", fmt.Errorf("has a token of fewer than %d characters: openssl rand -base64 24 makes a good one", shortestToken)
	}
	return c, words[1], nil
}

// who is whom the request's token stands for. An error is about the file; ok is about
// the caller.
func (t *tokens) who(r *http.Request) (c caller, ok bool, err error) {
	k, err := t.now()
	if err != nil {
		return c, false, err
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return c, false, nil
	}
	c, ok = k.by[sha256.Sum256([]byte(strings.TrimSpace(token)))]
	return c, ok, nil
}
