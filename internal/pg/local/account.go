package local

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as.
type account struct {
	name       string
	credential *syscall.Credential // nil: as ourselves
}

// unprivileged picks the account: ourselves, or for root, whom PostgreSQL
// refuses, postgres or nobody.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "the current user"}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil && uid != 0 {
			return account{name, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root and there is no user postgres or nobody to run it as")
}

// mkdir makes a folder that only the account may enter.
func (a account) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return a.own(dir)
}

// own gives the account what we made for it.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// reach makes dir passable for the account, and reports a parent that is not: such
// a folder belongs to somebody else, so it is not changed.
func (a account) reach(dir string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	for p := filepath.Dir(dir); ; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("user %s cannot pass through %s: choose another folder for PostgreSQL (or another TMPDIR)", a.name, p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}
