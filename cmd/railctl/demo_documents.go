package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"briefrail/internal/brief"
)

func (d *demo) folder() fs.FS {
	if d.opts.docs == "" {
		return brief.Samples()
	}
	return os.DirFS(d.opts.docs)
}

// readDocuments reads all of them before the story begins, so that they can land
// together: the first PDF alone needs seconds.
func (d *demo) readDocuments(ctx context.Context) (docs []brief.Document, err error) {
	from := d.folder()
	names, err := brief.Names(from)
	if err != nil {
		return nil, fail(exitUsage, "--docs %s: %w", d.opts.docs, err)
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
		return nil, fail(exitUsage, "--docs %s: none of its documents can be read", d.opts.docs)
	}
	if d.opts.docs == "" {
		d.screen.fact("documents", "%s of this project (make demo DOCS=DIR takes your own files)", count(len(docs), "short text"))
	} else {
		d.screen.fact("documents", "%s from %s, read in %.1f s", count(len(docs), "document"), d.opts.docs, time.Since(begun).Seconds())
	}
	return docs, nil
}
