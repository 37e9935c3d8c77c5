package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// matter reads MATTER: a key, or a matter's UUID that one firm only has.
func (s *session) matter(ctx context.Context, text string) (rail.Key, error) {
	if strings.Contains(text, "/") {
		k, err := rail.ParseKey(text)
		if err != nil {
			return k, fail(exitUsage, "%w", err)
		}
		return k, nil
	}
	id, err := rail.ParseUUID(text)
	if err != nil {
		return rail.Key{}, fail(exitUsage, "%.80q is not a matter: want FIRM_UUID/MATTER_UUID, or the matter's UUID alone", text)
	}
	keys, err := audit.FindMatter(ctx, s.pool, id)
	switch {
	case pg.SQLState(err) == "57014":
		return rail.Key{}, fail(exitTimeout, "%w; the UUID alone is looked for in whole tables: say FIRM/MATTER", err)
	case err != nil:
		return rail.Key{}, err
	case len(keys) == 0:
		return rail.Key{}, fail(exitNotFound, "no firm has a matter %s, neither in the ledger nor in the outbox", id)
	case len(keys) > 1:
		return rail.Key{}, fail(exitUsage, "%d firms have a matter %s: say which one%s", len(keys), id, listed(keys))
	}
	return keys[0], nil
}

func listed(keys []rail.Key) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "\n  %s", k)
	}
	return b.String()
}

// job reads the job of a matter; an unknown one is told with what may be meant.
func (s *session) job(ctx context.Context, k rail.Key) (audit.JobRow, error) {
	j, err := audit.ReadJob(ctx, s.pool, k)
	if errors.Is(err, audit.ErrNotFound) {
		return j, s.unknown(ctx, k)
	}
	return j, err
}

func (s *session) unknown(ctx context.Context, k rail.Key) error {
	err := fail(exitNotFound, "the ledger has no job of matter %s: nothing was ever demanded for it, or it was purged", k)
	others, lookup := audit.FindMatter(ctx, s.pool, k.Matter)
	if lookup != nil || len(others) == 0 {
		return err
	}
	for _, o := range others {
		if o == k {
			return fail(exitNotFound, "%w; the outbox has facts of it: railctl outbox list --matter %s", err, k)
		}
	}
	return fail(exitNotFound, "%w; did you mean%s", err, listed(others))
}

// knownFirm refuses a firm that the ledger has never seen, where nothing else shows
// that it has: a misspelt one would be a change of nothing that looks like success.
func (s *session) knownFirm(ctx context.Context, f rail.UUID, shown bool) error {
	if f.IsZero() || shown {
		return nil
	}
	known, err := audit.KnownFirm(ctx, s.pool, f)
	if err != nil || known {
		return err
	}
	return fail(exitNotFound, "the ledger has never seen firm %s, neither a matter nor a fact of it: is it spelt right? (railctl matter list)", f)
}

// firm reads a firm's UUID; empty text is the nil UUID, every firm.
func firm(text string) (rail.UUID, error) {
	if text == "" {
		return rail.UUID{}, nil
	}
	id, err := rail.ParseUUID(text)
	if err != nil {
		return id, fail(exitUsage, "firm: %w", err)
	}
	return id, nil
}

// narrow reads the --firm and --matter of a list; the latter may be a whole key.
func narrow(firmText, matterText string) (f, m rail.UUID, err error) {
	if strings.Contains(matterText, "/") {
		k, err := rail.ParseKey(matterText)
		if err != nil {
			return f, m, fail(exitUsage, "--matter: %w", err)
		}
		return k.Firm, k.Matter, nil
	}
	if f, err = firm(firmText); err != nil || matterText == "" {
		return f, m, err
	}
	if m, err = rail.ParseUUID(matterText); err != nil {
		return f, m, fail(exitUsage, "--matter: %w", err)
	}
	return f, m, nil
}
