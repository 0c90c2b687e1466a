// Package write puts generated files on disk, or says how the disk differs from them.
package write

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/templates"
)

// A File is a generated file, or, without content, one that is to be removed.
type File struct {
	Name    string
	Content []byte // nil: nothing generates this file any more
	current []byte // the content on disk
	exists  bool
}

// Action is write or remove.
func (f File) Action() string {
	if f.Content == nil {
		return "remove"
	}
	return "write"
}

// Changed reads the disk and returns those files that differ from it, other than in their line ends. A file that would be replaced and is not the generator's is an error.
// An empty one is its own: a loss of power can leave that.
func Changed(files []File) ([]File, error) {
	var changed []File
	for _, f := range files {
		current, err := os.ReadFile(f.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f.current, f.exists = current, err == nil
		if len(current) > 0 && !output.Ours(current) {
			return nil, fmt.Errorf("%s: not written by lockgen (none of its first ten lines is %q), so it is not replaced; move it away", f.Name, templates.Header)
		}
		if f.exists != (f.Content != nil) || !output.Same(current, f.Content) {
			changed = append(changed, f)
		}
	}
	return changed, nil
}

// Apply makes the disk as the files are. It replaces each file at once: a reader sees the old or the new one.
func Apply(files []File) error {
	for _, f := range files {
		if f.Content == nil {
			if err := os.Remove(f.Name); err != nil && !errors.Is(err, fs.ErrNotExist) { // another run may have been faster
				return err
			}
			continue
		}
		if err := replace(f); err != nil {
			return fmt.Errorf("%s: not written: %w", f.Name, err)
		}
	}
	return nil
}

// replace writes a file beside the old one and renames it. A link stays one, and what it points to is replaced.
func replace(f File) (err error) {
	name, mode := f.Name, fs.FileMode(0o644)
	if linked, err := filepath.EvalSymlinks(name); err == nil {
		name = linked
	}
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	// The name makes the go command ignore what a killed run leaves behind. It is short: that of the file may be as long as a name can be.
	tmp, err := os.CreateTemp(filepath.Dir(name), "_lockgen.*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(f.Content)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// Diff shows what Apply would change, as patch reads it, with names relative to dir.
func Diff(files []File, dir string) []byte {
	var out bytes.Buffer
	for _, f := range files {
		name := diag.Relative(dir, f.Name)
		from, to := "a/"+name, "b/"+name
		if !f.exists {
			from = os.DevNull
		}
		if f.Content == nil {
			to = os.DevNull
		}
		text := diff.Diff(from, output.Unix(f.current), to, f.Content)
		if text == nil { // an empty file that is to be removed
			text = fmt.Appendf(nil, "diff %s %s\n", from, to)
		}
		out.Write(text)
	}
	return out.Bytes()
}
