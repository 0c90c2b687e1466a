// Package synth writes modules to measure generators with: as large as a service of some years, the same bytes for the same size.
package synth

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"

	"github.com/lockgen/lockgen/internal/testmodule"
)

// Path is the path of a module that [Write] writes.
const Path = "example.com/synth"

// Packages is how many packages a module has, whatever its interfaces.
const Packages = 100

// methods is how many an interface has; each has a lock.
const methods = 10

// Package is the folder of the i-th package of a module, below it.
func Package(i int) string { return fmt.Sprintf("p%02d", i) }

// Interface is the name of the j-th annotated interface of a package.
func Interface(j int) string { return fmt.Sprintf("Service%d", j) }

// In says how many of n annotated interfaces are in the i-th package: they are dealt out evenly, the first package is served first.
func In(i, n int) int {
	count := n / Packages
	if i < n%Packages {
		count++
	}
	return count
}

// Write writes a module with n annotated interfaces of ten methods below dir, for lockgen in root. Each of its packages has about a thousand lines
// of types and functions besides, and imports the one before it.
func Write(dir, root string, n int) error {
	if err := testmodule.Write(dir, root, Path); err != nil {
		return err
	}
	files := map[string][]byte{}
	for i := range Packages {
		files[filepath.Join(Package(i), "types.go")] = types(i)
		files[filepath.Join(Package(i), "api.go")] = api(i, In(i, n))
	}
	for name, content := range files {
		content, err := format.Source(content)
		if err != nil {
			return err
		}
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// types is the file that has no annotations: what the interfaces mention, and much that they don't.
func types(i int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Package p%02d is one of many.\npackage p%02d\n\nimport (\n\t\"context\"\n\t\"database/sql\"\n\t\"encoding/json\"\n\t\"fmt\"\n\t\"net/http\"\n\n", i, i)
	if i > 0 {
		fmt.Fprintf(&b, "\t%q\n", Path+"/"+Package(i-1))
	}
	b.WriteString("\t\"github.com/redis/rueidis\"\n")
	b.WriteString(")\n\n")
	before := "string"
	if i > 0 {
		before = Package(i-1) + ".ID0"
	}
	const entities = 25
	for e := range entities {
		fmt.Fprintf(&b, `// ID%[1]d names an Entity%[1]d.
type ID%[1]d string

// Entity%[1]d is a record.
type Entity%[1]d struct {
	ID     ID%[1]d            `+"`json:\"id\"`"+`
	Before %[2]s
	Number int64
	Labels map[string]string
	Owner  *Entity%[3]d
	Header http.Header
	db     *sql.DB
	redis  rueidis.Client
}

// Key%[1]d is a key that must be made by a function.
func (e *Entity%[1]d) Key%[1]d() string { return fmt.Sprintf("%%s/%%v", e.ID, e.Before) }

// Load reads the record.
func (e *Entity%[1]d) Load(ctx context.Context) error {
	row := e.db.QueryRowContext(ctx, "select body from entities where id = $1", string(e.ID))
	var body []byte
	if err := row.Scan(&body); err != nil {
		return fmt.Errorf("entity %%s: %%w", e.ID, err)
	}
	return json.Unmarshal(body, e)
}

// Cached reads the record from the cache, or loads it.
func (e *Entity%[1]d) Cached(ctx context.Context) error {
	body, err := e.redis.Do(ctx, e.redis.B().Get().Key(string(e.ID)).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return e.Load(ctx)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, e)
}

// ServeHTTP shows the record.
func (e *Entity%[1]d) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := e.Cached(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(e); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

`, e, before, (e+1)%entities)
	}
	return b.Bytes()
}

// api is the file of the annotated interfaces.
func api(i, n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package p%02d\n", i)
	if n == 0 {
		b.WriteString("\n// Without has no annotations.\ntype Without interface{ Name() string }\n")
		return b.Bytes()
	}
	b.WriteString("\nimport \"context\"\n")
	for j := range n {
		fmt.Fprintf(&b, "\n// %[1]s is a service.\n//\n//lockgen:service wait=3s\ntype %[1]s interface {\n", Interface(j))
		for m := range methods {
			if m > 0 {
				b.WriteByte('\n')
			}
			e := (j + m) % 25
			fmt.Fprintf(&b, "\t// Change%[1]d changes an entity.\n\t//\n", m)
			// Each package has keys of its own, since its entities are of types of its own.
			prefix := Package(i)
			switch m % 3 {
			case 0:
				fmt.Fprintf(&b, "\t//lockgen:lock key=%[3]s:entity%[2]d:{e.ID}\n\tChange%[1]d(ctx context.Context, e *Entity%[2]d, number int64) (receipt string, err error)\n", m, e, prefix)
			case 1:
				fmt.Fprintf(&b, "\t//lockgen:lock key=%[3]s:entity%[2]d:{id} watchdog=10s\n\tChange%[1]d(ctx context.Context, id ID%[2]d, labels map[string]string) error\n", m, e, prefix)
			default:
				fmt.Fprintf(&b, "\t//lockgen:lock key=%[3]s:entity%[2]d:{e.ID}\n\t//lockgen:lock key=%[3]s:number%[2]d:{e.Owner.Number}\n"+
					"\tChange%[1]d(ctx context.Context, e *Entity%[2]d) (*Entity%[2]d, error)\n", m, e, prefix)
			}
		}
		b.WriteString("}\n")
	}
	return b.Bytes()
}

// Converters writes a module for generators of conversions: n interfaces of ten methods, each between two structs, with goverter's annotations.
func Converters(dir string, n int) error {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+Path+"\n\ngo 1.26.0\n"), 0o644); err != nil {
		return err
	}
	for i := range Packages {
		var b bytes.Buffer
		fmt.Fprintf(&b, "package %s\n", Package(i))
		for e := range methods {
			for _, side := range []string{"In", "Out"} {
				fmt.Fprintf(&b, "\ntype %s%d struct {\n\tID string\n\tNumber int64\n\tLabels map[string]string\n}\n", side, e)
			}
		}
		for j := range In(i, n) {
			fmt.Fprintf(&b, "\n// goverter:converter\n// goverter:output:file ./generated%d.go\n// goverter:output:package %s/%s\ntype Converter%d interface {\n", j, Path, Package(i), j)
			for m := range methods {
				fmt.Fprintf(&b, "\tConvert%d(source In%d) Out%d\n", m, m, m)
			}
			b.WriteString("}\n")
		}
		src, err := format.Source(b.Bytes())
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, Package(i)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, Package(i), "api.go"), src, 0o644); err != nil {
			return err
		}
	}
	return nil
}
