package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"briefrail/internal/brief"
)

// documents is where they come from and what people call that place.
func (d *demo) documents() (fs.FS, string) {
	if d.opts.docs == "" {
		return brief.Samples(), "three short texts of this project"
	}
	return os.DirFS(d.opts.docs), d.opts.docs
}

// readDocuments reads all of them before the story begins, so that they can land
// together: the first PDF alone needs seconds.
func (d *demo) readDocuments(ctx context.Context) (docs []brief.Document, err error) {
	from, called := d.documents()
	names, err := brief.Names(from)
	if err != nil {
		return nil, fail(exitUsage, "--docs %s: %w", called, err)
	}
	begun := time.Now()
	d.screen.status("reading %s", count(len(names), "document"))
	r := &brief.Reader{}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Prepare(ctx, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		doc, err := r.Read(ctx, from, name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			d.screen.warn("left out: %v", err)
			continue
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 {
		return nil, fail(exitUsage, "--docs %s: none of its documents can be read", called)
	}
	d.screen.fact("documents", "%s, %s, read in %.1f s", called, count(len(docs), "document"), time.Since(begun).Seconds())
	return docs, nil
}
