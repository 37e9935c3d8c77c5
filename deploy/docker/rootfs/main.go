// Command rootfs writes the archives that container images are made of:
//
//	rootfs base DIR/base.tar             root certificates, time zones, the account
//	rootfs program FILE DIR/NAME.tar     one static program, as /NAME
//
// The same input gives the same bytes, whoever runs it, wherever and whenever: entries
// come in a fixed order, belong to root, and carry the time of SOURCE_DATE_EPOCH
// (seconds; 0 without it). It promises nothing about the program that it packs.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	at, err := moment(epoch)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "base":
		files, err := base()
		if err != nil {
			return err
		}
		return write(args[1], at, files)
	case len(args) == 3 && args[0] == "program":
		program, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		return write(args[2], at, []file{{filepath.Base(args[1]), 0o755, program}})
	}
	return errors.New("usage: rootfs base OUT.tar, or rootfs program FILE OUT.tar")
}

// moment is the time of every entry.
func moment(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: want whole seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0), nil
}

// file is one entry of an archive; a name that ends in a slash is a folder.
type file struct {
	name string
	mode int64
	data []byte
}

// base is what every image has. The account is a name for the number that images run as.
func base() ([]file, error) {
	zones, err := zoneinfo()
	if err != nil {
		return nil, err
	}
	return []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("nonroot:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"usr/", 0o755, nil},
		{"usr/share/", 0o755, nil},
		{"usr/share/zoneinfo.zip", 0o644, zones},
	}, nil
}

// roots are the certificates that Mozilla trusts without a condition. Those that it
// trusts up to a date only are left out, as a file of certificates cannot say so.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return out.Bytes()
}

// zoneinfo is the database of time zones that comes with the go command.
func zoneinfo() ([]byte, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	name := filepath.Join(strings.TrimSpace(string(goroot)), "lib", "time", "zoneinfo.zip")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("time zones: %w; this Go has none of its own: use the one of https://go.dev/dl", err)
	}
	return data, nil
}

// write makes the whole archive in memory first: a half-written one would be an image.
func write(name string, at time.Time, files []file) error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
