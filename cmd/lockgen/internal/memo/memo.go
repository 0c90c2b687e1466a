// Package memo remembers which input was found to be up to date, so that the same input need not be looked at again.
package memo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Memo is what is remembered about one way to call the program, or about one package.
type Memo struct{ name string }

// ForCall finds the memo of a call, by whatever tells it from other calls. It is in the user's cache directory; if there is none, nothing is remembered.
func ForCall(call ...string) Memo { return in("calls", call) }

// ForPackage finds the memo of a package likewise.
func ForPackage(pkg ...string) Memo { return in("packages", pkg) }

func in(folder string, of []string) Memo {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Memo{}
	}
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return Memo{filepath.Join(dir, "lockgen", folder, hex.EncodeToString(sum[:]))}
}

// Find returns what was kept with this fingerprint, if it is the one that was kept last.
func (m Memo) Find(fingerprint string) (said string, ok bool) {
	if m.name == "" || fingerprint == "" {
		return "", false
	}
	kept, err := os.ReadFile(m.name)
	if err != nil {
		return "", false
	}
	first, said, _ := strings.Cut(string(kept), "\n")
	return said, first == fingerprint
}

// Keep remembers a fingerprint, which is one line, and what the run said. That it can't is no reason to fail: the next run takes longer.
func (m Memo) Keep(fingerprint, said string) {
	if m.name == "" || fingerprint == "" || os.MkdirAll(filepath.Dir(m.name), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(m.name), "new")
	if err != nil {
		return
	}
	_, err = tmp.WriteString(fingerprint + "\n" + said)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), m.name)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
}

// Self is the fingerprint of this program, or "" if it can't be had: another version may give another output.
func Self() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
