package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxBulk is the longest string that Redis accepts by default.
const maxBulk = 512 << 20

var errProtocol = errors.New("redistest: not the Redis protocol")

// A message is one request, one reply or one push as it went over the wire.
type message struct {
	raw   []byte
	kind  byte     // first byte of the value: '+', '-', ':', '$', '*', '>', ...
	words []string // the text of the value, or of the direct members of an aggregate
}

// failed tells an error reply.
func (m message) failed() bool { return m.kind == '-' || m.kind == '!' }

// first returns the first word in lower case.
func (m message) first() string {
	if len(m.words) == 0 {
		return ""
	}
	return strings.ToLower(m.words[0])
}

// readRequest reads what a client sends: an array of strings, or words on a line.
func readRequest(r *bufio.Reader) (message, error) {
	start, err := r.Peek(1)
	if err != nil {
		return message{}, err
	}
	if start[0] == '*' {
		return readReply(r)
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return message{}, unexpected(err)
	}
	return message{raw: bytes.Clone(line), kind: '+', words: strings.Fields(string(line))}, nil
}

// readReply reads one value in either version of the protocol, together with the
// attributes that stand before it.
func readReply(r *bufio.Reader) (message, error) {
	p := parser{r: r}
	for {
		kind, text, members, err := p.value(true)
		switch {
		case err != nil:
			return message{}, err
		case kind == '|':
			continue
		case members == nil:
			members = []string{text}
		}
		return message{raw: p.raw, kind: kind, words: members}, nil
	}
}

// A parser keeps the bytes of what it reads.
type parser struct {
	r   *bufio.Reader
	raw []byte
}

// value reads one value. The members of an aggregate are returned only at the top.
func (p *parser) value(top bool) (kind byte, text string, members []string, err error) {
	line, err := p.line()
	if err != nil {
		return 0, "", nil, err
	}
	kind, text = line[0], line[1:]
	switch kind {
	case '+', '-', ':', ',', '(', '#', '_':
		return kind, text, nil, nil
	case '$', '=', '!':
		text, err = p.bulk(text)
		return kind, text, nil, err
	case '*', '>', '~':
		members, err = p.aggregate(text, 1, top)
		return kind, "", members, err
	case '%', '|':
		members, err = p.aggregate(text, 2, top)
		return kind, "", members, err
	}
	return 0, "", nil, fmt.Errorf("%w: value starts with %q", errProtocol, kind)
}

func (p *parser) line() (string, error) {
	start := len(p.raw)
	for {
		part, err := p.r.ReadSlice('\n')
		p.raw = append(p.raw, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			if len(p.raw) > 0 {
				err = unexpected(err)
			}
			return "", err
		}
		break
	}
	line := p.raw[start:]
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("%w: line %q", errProtocol, line)
	}
	return string(line[:len(line)-2]), nil
}

func (p *parser) bulk(length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n > maxBulk {
		return "", fmt.Errorf("%w: length %q", errProtocol, length)
	}
	if n < 0 { // null
		return "", nil
	}
	start := len(p.raw)
	for missing := n + 2; missing > 0; { // grows with what comes, not with what is announced
		part := min(missing, 1<<20)
		p.raw = append(p.raw, make([]byte, part)...)
		if _, err := io.ReadFull(p.r, p.raw[len(p.raw)-part:]); err != nil {
			return "", unexpected(err)
		}
		missing -= part
	}
	return string(p.raw[start : start+n]), nil
}

func (p *parser) aggregate(length string, each int, top bool) ([]string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n > maxBulk {
		return nil, fmt.Errorf("%w: length %q", errProtocol, length)
	}
	members := []string{}
	for range n * each { // a null array has -1 and no members
		kind, text, _, err := p.value(false)
		if err != nil {
			return nil, unexpected(err)
		}
		if kind == '|' { // attributes of a member do not count as one
			if _, text, _, err = p.value(false); err != nil {
				return nil, unexpected(err)
			}
		}
		if top {
			members = append(members, text)
		}
	}
	return members, nil
}

// unexpected marks an end that is not between two messages.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
