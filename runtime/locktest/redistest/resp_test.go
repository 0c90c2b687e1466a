package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReply(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct {
		name, raw string
		kind      byte
		words     []string
	}{
		{"simple", "+OK\r\n", '+', []string{"OK"}},
		{"empty simple", "+\r\n", '+', []string{""}},
		{"long simple", "+" + long + "\r\n", '+', []string{long}},
		{"error", "-ERR no\r\n", '-', []string{"ERR no"}},
		{"number", ":-7\r\n", ':', []string{"-7"}},
		{"bulk", "$5\r\na\r\nbc\r\n", '$', []string{"a\r\nbc"}},
		{"long bulk", "$100000\r\n" + long + "\r\n", '$', []string{long}},
		{"null bulk", "$-1\r\n", '$', []string{""}},
		{"null array", "*-1\r\n", '*', []string{}},
		{"null", "_\r\n", '_', []string{""}},
		{"boolean", "#t\r\n", '#', []string{"t"}},
		{"double", ",1.5\r\n", ',', []string{"1.5"}},
		{"big number", "(123456789012345678901234567890\r\n", '(', []string{"123456789012345678901234567890"}},
		{"verbatim", "=7\r\ntxt:abc\r\n", '=', []string{"txt:abc"}},
		{"long error", "!5\r\nERR x\r\n", '!', []string{"ERR x"}},
		{"array", "*2\r\n$1\r\na\r\n:1\r\n", '*', []string{"a", "1"}},
		{"nested", "*2\r\n*2\r\n:1\r\n%1\r\n+k\r\n*0\r\n:2\r\n", '*', []string{"", "2"}},
		{"map", "%2\r\n+a\r\n:1\r\n+b\r\n_\r\n", '%', []string{"a", "1", "b", ""}},
		{"set", "~2\r\n+a\r\n+b\r\n", '~', []string{"a", "b"}},
		{"push", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", '>', []string{"message", "c", "hi"}},
		{"attribute", "|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n", '$', []string{"v"}},
		{"attribute inside", "*1\r\n|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n", '*', []string{"v"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := bufio.NewReaderSize(strings.NewReader(tt.raw+"+next\r\n"), 16)
			m, err := readReply(r)
			require.NoError(t, err)
			require.Equal(t, tt.raw, string(m.raw))
			require.Equal(t, string(tt.kind), string(m.kind))
			require.Equal(t, tt.words, m.words)
			m, err = readReply(r)
			require.NoError(t, err)
			require.Equal(t, "+next\r\n", string(m.raw))
			_, err = readReply(r)
			require.ErrorIs(t, err, io.EOF)

			for cut := 1; cut < min(len(tt.raw), 64); cut++ {
				_, err := readReply(bufio.NewReader(strings.NewReader(tt.raw[:cut])))
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			}
		})
	}
}

func TestReadReply_NotRedis(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"HTTP/1.1 200 OK\r\n", "+no return\n", "$x\r\n", "*x\r\n", "$999999999999\r\n", "\r\n", "?\r\n"} {
		_, err := readReply(bufio.NewReader(strings.NewReader(raw)))
		require.ErrorIs(t, err, errProtocol, "%q", raw)
	}
}

func TestReadRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw   string
		words []string
	}{
		{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", []string{"GET", "a"}},
		{"*0\r\n", []string{}},
		{"GET a\r\n", []string{"GET", "a"}},
		{"\r\n", []string{}},
	} {
		m, err := readRequest(bufio.NewReader(strings.NewReader(tt.raw)))
		require.NoError(t, err)
		require.Equal(t, tt.raw, string(m.raw))
		require.Equal(t, tt.words, m.words)
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n:1\r\n"))
	f.Add([]byte("|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := readReply(bufio.NewReader(strings.NewReader(string(raw))))
		if err == nil {
			require.Equal(t, string(raw[:len(m.raw)]), string(m.raw))
		}
	})
}
