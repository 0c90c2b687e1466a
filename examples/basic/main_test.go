package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest"
)

const shown = `no reentry
  SET NX: locked, and again by the same holder: held by somebody
  lockgen: locked, and again under its context: entered
no waiting
  SET NX: another one: held by somebody; when to try again it has to guess
  lockgen: another one: waited, and had it when it was given back
expiry under a slow holder
  SET NX: the holder still works, and another one has locked: two at once, and nobody was told
  lockgen: the holder still works, its lease is renewed; another one is refused: true
deleting somebody else's
  SET NX, DEL: the slow one deleted the lock of another one, and a third one has it now
  SET NX, compare and delete: whose lock was deleted learns of it when it unlocks: still its own: false
  lockgen: the slow one was told before: true; its unlock: true; the other one's lock: still its own: true
`

func TestRun(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"embedded": "", "the server of tests": locktest.Server(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), url, 2*time.Second, &out)) // a busy machine may not renew a shorter lease in time
			require.Equal(t, shown, out.String())
		})
	}
}
