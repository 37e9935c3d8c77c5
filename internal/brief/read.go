package brief

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The media types that a document can have.
const (
	MediaText = "text/plain"
	MediaPDF  = "application/pdf"
)

// MaxFileBytes is the largest file that ingest reads.
const MaxFileBytes = 64 << 20

// ErrUnreadable is wrapped by the errors of a document whose content cannot be
// taken as text: invalid UTF-8, NUL, a damaged or empty file.
var ErrUnreadable = errors.New("document cannot be read")

// Document is one document as read from a file, not stored yet.
type Document struct {
	Name      string   // file name without its folder
	MediaType string   // MediaText or MediaPDF
	SHA256    [32]byte // of the file's bytes
	Pages     []string // normalised text; page n is Pages[n-1]
}

// Reader reads documents. Its PDF sandbox starts at the first PDF, unless Prepare
// started it before, and ends with the context that it was started under. Not safe
// for concurrent use.
type Reader struct {
	pdf *PDFReader
}

// Close ends the PDF sandbox if there is one.
func (r *Reader) Close() error {
	if r.pdf == nil {
		return nil
	}
	return r.pdf.Close()
}

// Prepare starts the PDF sandbox when one of names is a PDF, so that no document
// has to wait for it later.
func (r *Reader) Prepare(ctx context.Context, names []string) (err error) {
	for _, n := range names {
		if mediaType(n) == MediaPDF && r.pdf == nil {
			r.pdf, err = NewPDFReader(ctx)
			return err
		}
	}
	return nil
}

// Names lists the documents of a folder (not of its sub-folders) in order of
// name: .pdf, .txt and .text files whose name does not begin with a dot.
func Names(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && mediaType(e.Name()) != "" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("list documents: no .pdf or .txt file in the folder")
	}
	return names, nil
}

func mediaType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".pdf":
		return MediaPDF
	case ".txt", ".text":
		return MediaText
	}
	return ""
}

// Read reads and normalises one file.
func (r *Reader) Read(ctx context.Context, fsys fs.FS, name string) (Document, error) {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return Document{}, fmt.Errorf("read %q: %w: its name is not plain text", name, ErrUnreadable)
	}
	body, err := readLimited(fsys, name)
	if err != nil {
		return Document{}, fmt.Errorf("read %q: %w", name, err)
	}
	doc := Document{Name: path.Base(name), MediaType: mediaType(name), SHA256: sha256.Sum256(body)}
	raw, err := r.pages(ctx, doc.MediaType, body)
	if err != nil {
		return Document{}, fmt.Errorf("read %q: %w", name, err)
	}
	doc.Pages = normalise(raw)
	return doc, nil
}

func readLimited(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	body, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > MaxFileBytes {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrUnreadable, MaxFileBytes>>20)
	}
	return body, nil
}

func (r *Reader) pages(ctx context.Context, media string, body []byte) ([]string, error) {
	switch media {
	case MediaText:
		return textPages(body)
	case MediaPDF:
		if err := r.Prepare(ctx, []string{".pdf"}); err != nil {
			return nil, err
		}
		pages, err := r.pdf.pages(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		return pages, nil
	}
	return nil, fmt.Errorf("%w: only .pdf and .txt files are", ErrUnreadable)
}

// textPages checks a plain text file and splits it at its form feeds. Nothing is
// repaired: a byte that is not text would be altered evidence.
func textPages(body []byte) ([]string, error) {
	if i := bytes.IndexByte(body, 0); i >= 0 {
		return nil, fmt.Errorf("%w: NUL character at byte %d", ErrUnreadable, i)
	}
	if i := invalidAt(body); i >= 0 {
		return nil, fmt.Errorf("%w: invalid UTF-8 at byte %d", ErrUnreadable, i)
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fmt.Errorf("%w: no text in it", ErrUnreadable)
	}
	return strings.Split(strings.TrimSuffix(string(body), "\f"), "\f"), nil
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
