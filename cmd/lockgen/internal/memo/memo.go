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

// A Memo is what is remembered about one way to call the program.
type Memo struct{ name string }

// For finds the memo of a call, by whatever tells it from other calls. It is in the user's cache directory; if there is none, nothing is remembered.
func For(call ...string) Memo {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Memo{}
	}
	sum := sha256.Sum256([]byte(strings.Join(call, "\x00")))
	return Memo{filepath.Join(dir, "lockgen", hex.EncodeToString(sum[:]))}
}

// Has says whether this is the fingerprint that was kept last.
func (m Memo) Has(fingerprint string) bool {
	if m.name == "" || fingerprint == "" {
		return false
	}
	kept, err := os.ReadFile(m.name)
	return err == nil && string(kept) == fingerprint
}

// Keep remembers a fingerprint. That it can't is no reason to fail: the next run takes longer.
func (m Memo) Keep(fingerprint string) {
	if m.name == "" || fingerprint == "" || os.MkdirAll(filepath.Dir(m.name), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(m.name), "new")
	if err != nil {
		return
	}
	_, err = tmp.WriteString(fingerprint)
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
