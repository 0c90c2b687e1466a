package deadlock

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKey shows that a message has each key as it is: as its text, which older processes read, if it is UTF-8.
func TestKey(t *testing.T) {
	t.Parallel()
	for key, text := range map[Key]string{
		"order:7": `"order:7"`, "": `""`, "größe 鎖": `"größe 鎖"`, "\ufffd": `"` + "\ufffd" + `"`, "\xff": `"\u0000/w=="`, "\xfe": `"\u0000/g=="`, "\x00/w==": `"\u0000AC93PT0="`,
	} {
		encoded, err := json.Marshal(Lease{key, "o"})
		require.NoError(t, err)
		require.Equal(t, `{"k":`+text+`,"o":"o"}`, string(encoded))
		var l Lease
		require.NoError(t, json.Unmarshal(encoded, &l))
		require.Equal(t, Lease{key, "o"}, l)
	}
	for _, text := range []string{`"\u0000!"`, `1`} {
		require.Error(t, json.Unmarshal([]byte(text), new(Key)), text)
	}
}
