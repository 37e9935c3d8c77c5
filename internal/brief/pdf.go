package brief

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// pdfPages bounds the memory of the sandbox: 16,384 pages of 64 KiB are 1 GiB.
const pdfPages = 16384

// PDFReader reads the text of PDF files inside a WebAssembly sandbox that sees no
// file system and has a bounded memory, because documents come from the other
// side. Its first start on a machine compiles for some four seconds; the result
// is kept in the user's cache folder, where there is one. Not safe for concurrent
// use; Close it when done.
type PDFReader struct {
	pool     pdfium.Pool
	instance pdfium.Pdfium
	cache    func() error // closes the compiled code, after the pool
}

// NewPDFReader starts the sandbox. Cancelling ctx stops a file that never ends.
func NewPDFReader(ctx context.Context) (*PDFReader, error) {
	ctx = experimental.WithCompilationWorkers(ctx, goruntime.GOMAXPROCS(0))
	if kept, err := keptCode(); err == nil {
		if r, err := startPDF(ctx, kept); err == nil {
			return r, nil // else the folder is full or damaged: go without it
		}
	}
	return startPDF(ctx, wazero.NewCompilationCache())
}

// compiler names the library whose machine code is kept: code of one version must
// never run under another. A test compares it with go.mod.
const compiler = "wazero-v1.12.0"

// keptCode is the compiled sandbox of an earlier start.
func keptCode() (wazero.CompilationCache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(filepath.Join(dir, "briefrail", compiler))
}

func startPDF(ctx context.Context, code wazero.CompilationCache) (*PDFReader, error) {
	closeCode := func() error { return code.Close(context.WithoutCancel(ctx)) }
	runtime := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithMemoryLimitPages(pdfPages).
		WithCloseOnContextDone(true).
		WithCompilationCache(code)
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MinIdle: 1, MaxIdle: 1, MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), RuntimeConfig: runtime, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PDF reader: %w", err), closeCode())
	}
	instance, err := pool.GetInstance(30 * time.Second)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PDF reader: %w", err), pool.Close(), closeCode())
	}
	return &PDFReader{pool: pool, instance: instance, cache: closeCode}, nil
}

// Close ends the sandbox and frees its memory.
func (r *PDFReader) Close() error {
	return errors.Join(r.instance.Close(), r.pool.Close(), r.cache())
}

// pages returns the raw text of each page of the file in body.
func (r *PDFReader) pages(body []byte) ([]string, error) {
	doc, err := r.instance.OpenDocument(&requests.OpenDocument{File: &body})
	if err != nil {
		return nil, fmt.Errorf("open PDF: %w", err)
	}
	defer r.instance.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: doc.Document}) //nolint:errcheck // nothing to lose on a read-only file
	count, err := r.instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return nil, fmt.Errorf("count pages of PDF: %w", err)
	}
	out := make([]string, count.PageCount)
	for i := range out {
		page := requests.Page{ByIndex: &requests.PageByIndex{Document: doc.Document, Index: i}}
		text, err := r.instance.GetPageText(&requests.GetPageText{Page: page})
		if err != nil {
			return nil, fmt.Errorf("read page %d of PDF: %w", i+1, err)
		}
		out[i] = text.Text
	}
	return out, nil
}
