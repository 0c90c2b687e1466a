package templates

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArticle(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"S": "an", "s": "an", "U": "a", "X": "an", "T": "a", "SQLStore": "an", "URLs": "a", "HTTP": "an", "DB": "a", "R2": "an",
		"Order": "an", "account": "an", "Service": "a", "User": "a", "Unit": "a", "Upload": "an", "Usage": "a", "OneTime": "a", "Owner": "an", "Hour": "an",
		"House": "a", "Ärzte": "a", "E1": "an",
	} {
		require.Equal(t, want, article(name), name)
	}
}
