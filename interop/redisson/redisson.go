// Package redisson builds the Java programs of this module, with a given version of Redisson.
package redisson

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Newest returns the version of Redisson that the Maven project in dir names.
func Newest(dir string) (string, error) {
	pom, err := os.ReadFile(filepath.Join(dir, "pom.xml"))
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(`<redisson.version>(.*)</redisson.version>`).FindSubmatch(pom)
	if version == nil {
		return "", fmt.Errorf("%s/pom.xml: no redisson.version", dir)
	}
	return string(version[1]), nil
}

// Classpath returns the class path of the Maven project in dir with a version of Redisson. It fetches and builds the
// programs once for each state of the sources, and keeps them in the user's cache.
func Classpath(dir, version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, root := range []string{"pom.xml", "src"} {
		err := filepath.WalkDir(filepath.Join(dir, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			hash.Write(text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	cache = filepath.Join(cache, "lockgen-interop")
	programs, err := maven(dir, filepath.Join(cache, hex.EncodeToString(hash.Sum(nil)[:8])), "package")
	if err != nil {
		return "", err
	}
	libraries, err := maven(dir, filepath.Join(cache, "redisson-"+version),
		"dependency:copy-dependencies@libraries", "-Dredisson.version="+version)
	if err != nil {
		return "", err
	}
	return filepath.Join(programs, "*") + string(os.PathListSeparator) + filepath.Join(libraries, "lib", "*"), nil
}

// maven makes Maven create a directory, unless it exists.
func maven(project, dir string, args ...string) (string, error) {
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(building) }()
	mvn := exec.Command("mvn", append([]string{
		"-B", "-q", "-Dmaven.wagon.http.retryHandler.count=5", "-f", filepath.Join(project, "pom.xml"),
		"-Dpeer.target=" + building,
	}, args...)...)
	if said, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", mvn, err, said)
	}
	// The first process wins; all build the same.
	if err = os.Rename(building, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", errors.Join(err, there)
		}
	}
	return dir, nil
}
