package shop

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	sqlBlock   = regexp.MustCompile("(?s)```sql\n(.*?)\n```")
	sqlComment = regexp.MustCompile(`(?m)--.*$`)
)

// recipe returns the statements of the SQL in a document: the table, the read and the write.
func recipe(t *testing.T, path string) (create, read, write string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks := sqlBlock.FindAllSubmatch(text, -1)
	require.Len(t, blocks, 1, path)
	statements := strings.Split(sqlComment.ReplaceAllString(string(blocks[0][1]), ""), ";")
	require.Len(t, statements, 4, path)
	require.Empty(t, strings.TrimSpace(statements[3]), path)
	return statements[0], statements[1], statements[2]
}

// TestRecipe runs the SQL of the documents.
func TestRecipe(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	ctx := t.Context()
	for _, path := range []string{"../README.md", "../../../docs/generator.md"} {
		create, read, write := recipe(t, path)
		_, err := store.db.Exec(ctx, `DROP TABLE wallets`)
		require.NoError(t, err)
		_, err = store.db.Exec(ctx, create)
		require.NoError(t, err, path)
		_, err = store.db.Exec(ctx, `INSERT INTO wallets VALUES ('w', 100)`)
		require.NoError(t, err)

		var cents int64
		require.NoError(t, store.db.QueryRow(ctx, read, "w", token).Scan(&cents), path)
		require.EqualValues(t, 100, cents)
		for _, step := range []struct {
			token, cents, rows int64
		}{
			{token, 90, 1}, {token, 80, 1}, {token - 1, 0, 0}, {token + 1, 70, 1}, {token, 0, 0},
		} {
			tag, err := store.db.Exec(ctx, write, "w", step.token, step.cents)
			require.NoError(t, err, path)
			require.Equal(t, step.rows, tag.RowsAffected(), "%s: %+v", path, step)
		}
		require.NoError(t, store.db.QueryRow(ctx, read, "w", token+2).Scan(&cents), path)
		require.EqualValues(t, 70, cents)
		tag, err := store.db.Exec(ctx, write, "w", token+1, 0)
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected(), "%s: the read of a later holder refuses the write of an earlier one", path)
	}
}

// TestRecipe_InGo shows that the Go code of the guide sends the statements of its SQL.
func TestRecipe_InGo(t *testing.T) {
	t.Parallel()
	const guide = "../../../docs/generator.md"
	_, read, write := recipe(t, guide)
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	for _, statement := range []string{read, write} {
		require.Contains(t, string(text), "`"+strings.TrimSpace(statement)+"`")
	}
}

var fencingUpdate = regexp.MustCompile(`(?m)^//\t(UPDATE orders .*)$`)

// TestRecipe_OfTheFencingExample runs the statement that examples/fencing has in place of a database.
func TestRecipe_OfTheFencingExample(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../fencing/database.go")
	require.NoError(t, err)
	found := fencingUpdate.FindSubmatch(source)
	require.NotNil(t, found, "there is no statement")
	store := openStore(t)
	ctx := t.Context()
	_, err = store.db.Exec(ctx, `DROP TABLE orders; CREATE TABLE orders (id TEXT PRIMARY KEY, carrier TEXT NOT NULL, token BIGINT NOT NULL);
		INSERT INTO orders VALUES ('42', '', 0)`)
	require.NoError(t, err)
	for _, step := range []struct {
		carrier string
		token   int64
		rows    int64
	}{
		{"truck", token + 1, 1}, {"pigeon", token, 0}, {"ship", token + 1, 1},
	} {
		tag, err := store.db.Exec(ctx, string(found[1]), step.carrier, step.token, "42")
		require.NoError(t, err)
		require.Equal(t, step.rows, tag.RowsAffected(), "%+v", step)
	}
	var carrier string
	require.NoError(t, store.db.QueryRow(ctx, `SELECT carrier FROM orders`).Scan(&carrier))
	require.Equal(t, "ship", carrier)
}
