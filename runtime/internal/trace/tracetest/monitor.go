package tracetest

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Command is a script that a server ran for a client, with what the script called.
type Command struct {
	At    time.Time
	Took  time.Duration // to the last call: the server stood still in the script if that is long
	Words []string
	Calls [][]string
}

// A Monitor notes the scripts that a server runs, with its command MONITOR.
type Monitor struct {
	addr string
	conn net.Conn
	most int
	done chan struct{} // closed when nothing is noted any more

	all []*Command
}

// Watch begins to note the scripts of a server: the first most of them.
func Watch(addr string, most int) (*Monitor, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &Monitor{addr: addr, conn: conn, most: most, done: make(chan struct{})}
	in := bufio.NewReaderSize(conn, 1<<20)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, err
	}
	if ok, err := in.ReadString('\n'); err != nil || ok != "+OK\r\n" {
		return nil, fmt.Errorf("monitor of %s: %q, %w", addr, ok, err)
	}
	go m.read(in)
	return m, nil
}

// theEnd is sent after the last command.
const theEnd = "the end of the trace"

var monitorLine = regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ ([^\]]+)\] (.*)\r\n$`)

func (m *Monitor) read(in *bufio.Reader) {
	defer close(m.done)
	defer m.conn.Close() //nolint:errcheck // nothing more is read
	for {
		line, err := in.ReadString('\n')
		if err != nil || strings.Contains(line, `"`+theEnd+`"`) {
			return
		}
		parts := monitorLine.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		words := quotedWords(parts[4])
		seconds, _ := strconv.ParseInt(parts[1], 10, 64)
		micros, _ := strconv.ParseInt(parts[2], 10, 64)
		at := time.Unix(seconds, micros*1000)
		switch {
		case parts[3] == "lua" && len(m.all) > 0:
			last := m.all[len(m.all)-1]
			last.Calls, last.Took = append(last.Calls, words), at.Sub(last.At)
		case len(words) > 2 && strings.EqualFold(words[0], "evalsha"):
			if len(m.all) == m.most {
				return
			}
			m.all = append(m.all, &Command{At: at, Words: words})
		}
	}
}

// Stop returns the scripts of the server until now, or the first ones if there were too many.
func (m *Monitor) Stop() ([]*Command, error) {
	select {
	case <-m.done:
		return m.all, nil
	default:
	}
	last, err := net.Dial("tcp", m.addr)
	if err != nil {
		return nil, err
	}
	defer last.Close() //nolint:errcheck // nothing more is written
	if _, err := last.Write([]byte("ECHO \"" + theEnd + "\"\r\n")); err != nil {
		return nil, err
	}
	<-m.done
	return m.all, nil
}

// Full reports whether there were more scripts than are noted.
func (m *Monitor) Full() bool {
	select {
	case <-m.done:
		return len(m.all) == m.most
	default:
		return false
	}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func quotedWords(line string) (words []string) {
	for _, q := range quoted.FindAllString(line, -1) {
		word, err := strconv.Unquote(q)
		if err != nil {
			word = q
		}
		words = append(words, word)
	}
	return words
}
