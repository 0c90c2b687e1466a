package templates_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/templates"
)

func TestNames(t *testing.T) {
	t.Parallel()
	var outer templates.Names
	require.Equal(t, "key", outer.Pick("key"))
	require.Equal(t, "key1", outer.Pick("key"))
	require.Equal(t, "type1", outer.Pick("type"), "a keyword is never free")
	outer.Reserve("held", "held1")

	inner := outer.Inner()
	require.Equal(t, "held2", inner.Pick("held"), "what is taken outside is taken inside")
	require.Equal(t, "err", inner.Pick("err"))
	require.Equal(t, "err", outer.Pick("err"), "and not the other way round")
	require.False(t, inner.Free("_"))
	require.False(t, inner.Free(""))
}

func TestImportName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"context":              "context",
		"example.com/shop/v2":  "shop",
		"example.com/v2":       "example",
		"example.com/go-redis": "redis",
		"example.com/gold":     "gold",
		"gopkg.in/yaml.v3":     "yaml",
		"example.com/a-b":      "a",
		"v1":                   "v1",
	} {
		require.Equal(t, want, templates.ImportName(path), path)
	}
}
