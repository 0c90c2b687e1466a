package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// lone makes a goroutine that is the only one in Go, and a thread that is the only one in Java, take turns without a pause. No
// Go program waits for the other, so each of the goroutine's releases is of a lock that nobody of its side wants.
func (f *fleet) lone(t *testing.T) {
	f.loneMutex(t)
	for _, pair := range []struct {
		name, inGo, inJava, who string
		least                   int // hundredths of the turns that Java has
	}{
		{"fair mutex", "fair", "fair", "", 20},
		{"read-write lock", "write", "write", ", which write", 20},
		{"read-write lock", "write", "read", ", which reads in Java and writes in Go", 20},
		{"read-write lock", "read", "write", ", which writes in Java and reads in Go", 20},
		{"semaphore", "semaphore", "semaphore", "", 0}, // has no start for Java: processes race
		{"permits", "permit", "permit", "", 0},
	} {
		if pair.inJava == "permit" && !f.at("3.17.0") {
			continue
		}
		f.cell(t, pair.name, aLonePair+pair.who, func(t *testing.T) string {
			return f.repeats(t, func() (string, bool) {
				c := contest{Kind: pair.inGo, Java: pair.inJava, Key: aKey(t, "k"), Counter: uncounted, Each: 1, Lasts: *contend / 8}
				inGo, inJava := f.compete(t, c, 1, []thread{f.java})
				seen := fmt.Sprintf("for %s: Go %d times, waited %s at most; Java %d times, %s",
					c.Lasts, inGo.Count, round(inGo.Longest), inJava.Count, round(inJava.Longest))
				return seen, inGo.Count > 0 && inJava.Count > 0 && 100*inJava.Count >= pair.least*(inGo.Count+inJava.Count)
			})
		})
	}
}

const aLonePair = "1 thread in Java beside 1 goroutine in Go, both without a pause"

// loneMutex does so with a mutex, and counts the turns while the thread listens: between two waits a Java program is slower than a
// goroutine is, most of all in a cluster, where Redisson waits for replicas. It counts the contests in which the thread has at least a
// fifth of these turns, until it has had enough of them.
func (f *fleet) loneMutex(t *testing.T) {
	f.cell(t, "mutex", aLonePair, func(t *testing.T) string {
		const enough = 10
		turns := 0
		return f.repeats(t, func() (string, bool) {
			c := contest{Kind: mutexKind.java, Key: aKey(t, "k"), Counter: uncounted, Each: 1, Lasts: *contend / 8}
			server := f.owner(t, c.Key)
			m := newMonitor(t, server)
			inGo, inJava := f.compete(t, c, 1, []thread{f.java})
			goHad, javaHad := m.whileListening(t, server, c.Key)
			if 5*javaHad >= goHad+javaHad {
				turns += javaHad
			}
			seen := fmt.Sprintf("for %s: Go %d times, waited %s at most; Java %d times, %s; while Java listens: Go %d times, Java %d times",
				c.Lasts, inGo.Count, round(inGo.Longest), inJava.Count, round(inJava.Longest), goHad, javaHad)
			return seen, turns >= enough
		})
	})
}

// repeats makes a contest until its result is as it has to be: a machine may stop, and a Java program with it.
func (f *fleet) repeats(t *testing.T, contest func() (seen string, good bool)) string {
	t.Helper()
	var seen string
	for range 20 {
		var good bool
		seen, good = contest()
		t.Log(seen)
		if good {
			return seen
		}
	}
	require.Fail(t, "Java has too few of the turns each time", seen)
	return ""
}

// owner returns the server that has a key.
func (f *fleet) owner(t *testing.T, key string) *redistest.RedisServer {
	t.Helper()
	for _, server := range f.nodes {
		if !master(server) {
			continue
		}
		if _, err := server.Try("TYPE", key); err == nil {
			return server
		}
	}
	require.Fail(t, "no server has the key", key)
	return nil
}

var (
	subscribes   = regexp.MustCompile(`^"(?i)s?subscribe"`)
	unsubscribes = regexp.MustCompile(`^"(?i)s?unsubscribe"`)
)

// whileListening returns how often a goroutine and a thread had a mutex while the thread had subscribed to its channel. Connections
// of Go begin with HELLO, those of Redisson do not. m began before the Go program.
func (m *monitor) whileListening(t *testing.T, server *redistest.RedisServer, key string) (inGo, inJava int) {
	t.Helper()
	mark := redistest.Key(t, "mark")
	_, err := server.Try("ECHO", mark)
	require.NoError(t, err)
	ofGo, listening := map[string]bool{}, map[string]bool{}
	lock, channel := `"`+key+`"`, `"redisson_lock__channel:{`+key+`}"`
	for {
		require.True(t, m.lines.Scan(), "the connection ended: %v", m.lines.Err())
		line := monitored.FindStringSubmatch(m.lines.Text())
		require.NotNil(t, line, m.lines.Text())
		from, command := line[2], line[3]
		switch {
		case strings.Contains(command, mark):
			return inGo, inJava
		case strings.HasPrefix(command, `"HELLO"`):
			ofGo[from] = true
		case from != "lua" && !ofGo[from] && strings.Contains(command, channel) && subscribes.MatchString(command):
			listening[from] = true
		case from != "lua" && strings.Contains(command, channel) && unsubscribes.MatchString(command):
			delete(listening, from)
		case from != "lua" || len(listening) == 0:
		case strings.HasPrefix(command, `"hset" `+lock):
			inGo++
		case strings.HasPrefix(command, `"hincrby" `+lock) && strings.HasSuffix(command, ` "1"`):
			inJava++
		}
	}
}
