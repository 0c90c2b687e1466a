package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// The errors of requests that have no answer.
var (
	// ErrNoAnswer is the error of a request that took longer than its connection allows.
	ErrNoAnswer = errors.New("no answer for as long as the connection waits for one")

	errFailedOver = errors.New("the connection was given up, for one to another master")
	errBroke      = errors.New("the connection broke")
)

// Replied returns the error that a server replied with, if err is one or says more about one.
func Replied(err error) (reply *rueidis.RedisError, ok bool) {
	ok = errors.As(err, &reply) && !reply.IsNil()
	return reply, ok
}

// Denied reports whether a server replied that its user has no permission. One before 7.2 has other words, and does not
// name the command of a script.
func Denied(err error) bool {
	reply, ok := Replied(err)
	return ok && denied(reply.Error())
}

func denied(text string) bool {
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "The user executing the script can't ") ||
		strings.Contains(text, "ACL failure in script")
}

// transient are the first words of the errors of a server that go away by themselves. A server with as many connections as it accepts says so to a new
// one; it says UNBLOCKED to a request that waits for replicas when it becomes one itself, and that WAIT cannot be used if it has just become one.
var transient = []string{
	"LOADING", "BUSY", "NOSCRIPT", "TRYAGAIN", "MOVED", "ASK", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "MISCONF", "OOM",
	"UNBLOCKED", "WAIT cannot be used with", "max number of clients",
}

// Refused wraps err, of a request or of anything else, in the error that callers test for.
func Refused(err error) error {
	reply, ok := rueidis.IsRedisErr(err)
	_, replied := Replied(err)
	switch {
	case unanswered(err), replied && Passing(err):
		return Unavailable("", err)
	case !ok:
		return err
	case strings.Contains(reply.Error(), "WRONGTYPE"):
		return fmt.Errorf("%w: %w", failure.ErrWrongType, err)
	case Denied(err):
		return fmt.Errorf("a permission is missing, which ACL LOG on the server names: %w", err)
	}
	return err
}

// Unavailable returns the error of a call without an answer from Redis, because of err. when begins with a space, or is empty.
func Unavailable(when string, err error) error {
	if errors.Is(err, failure.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w%s: %w", failure.ErrUnavailable, when, err)
}

// Passing reports whether an error goes away by itself, so that a call that waits may wait for that too: a connection broke;
// or a server starts, fails over, lacks replicas, cannot write to its disk, is out of memory, accepts no more connections, runs a long script of
// somebody else, or has its scripts flushed all the time.
func Passing(err error) bool {
	if short := (*replicaError)(nil); errors.As(err, &short) && short.err != nil {
		err = short.err // WAIT may be forbidden
	}
	reply, ok := Replied(err)
	if !ok {
		return !failure.Lasting(err) && !errors.Is(err, rueidis.ErrClosing) && !errors.Is(err, protocol.ErrOutdated)
	}
	text := reply.Error()
	for _, kind := range transient {
		// Before Redis 7, other words precede the error of a command in a script.
		if strings.HasPrefix(text, kind+" ") || strings.Contains(text, ": -"+kind+" ") {
			return true
		}
	}
	return false
}

// Unknown reports whether Redis may have run a request although err came back. It has not if it replied with an error,
// or if there was no connection to send on.
func Unknown(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := Replied(err); ok || errors.Is(err, rueidis.ErrClosing) || errors.Is(err, protocol.ErrOutdated) || Unconfirmed(err) || untrusted(err) {
		return false
	}
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}

// Begun reports whether a script may have begun what it was not permitted to finish.
func Begun(err error) bool {
	if err == nil {
		return false // as usual, and then it allocates nothing
	}
	reply, ok := Replied(err)
	return ok && denied(reply.Error()) && !strings.Contains(reply.Error(), "'evalsha'")
}

// refusesAll reports whether a server refused a command before it looked at its keys: it starts, it runs the long script of somebody else, or it is a
// replica without a master.
func refusesAll(err error) bool {
	reply, ok := Replied(err)
	return ok && slices.ContainsFunc([]string{"LOADING ", "BUSY ", "MASTERDOWN "}, func(word string) bool { return strings.HasPrefix(reply.Error(), word) })
}

// Cut reports whether the connection ended before an answer came over it. It may have ended while no request used it, so that
// the request was never sent. The next request goes over another connection.
func Cut(err error) bool {
	if !Unknown(err) {
		return false
	}
	for _, ends := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, errBroke, errFailedOver} {
		if errors.Is(err, ends) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

// CutWhileDialled reports whether the connection was cut while it was dialled, so that the request was never sent. A server that is away
// refuses a connection instead, or does not answer.
func CutWhileDialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNABORTED))
}

// A slowDial is why a server could not be dialled in time. It is no error of package context, as that of package net is.
type slowDial string

func (s slowDial) Error() string { return string(s) }
func (slowDial) Timeout() bool   { return true }
func (slowDial) Temporary() bool { return true }

// dialledTooSlowly returns err as the error of a dial that is no end of a context, if it is that of a dial.
func dialledTooSlowly(err error) (slow error, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || op.Err == nil {
		return nil, false
	}
	return &net.OpError{Op: op.Op, Net: op.Net, Source: op.Source, Addr: op.Addr, Err: slowDial(op.Err.Error())}, true
}

// unanswered reports whether err says only that Redis did not answer: it is the error of a connection, and no reply while that was made.
func unanswered(err error) bool {
	if _, ok := Replied(err); ok || err == nil || failure.Named(err) {
		return false
	}
	var op *net.OpError
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, os.ErrDeadlineExceeded) || Cut(err) || errors.As(err, &op) || untrusted(err)
}

// untrusted reports whether a server showed a certificate while it was dialled that the client does not trust, so that the request was never
// sent: the certificate may have expired.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

// Unconfirmed reports whether Redis has granted what is released, for want of replicas.
func Unconfirmed(err error) bool { return errors.Is(err, failure.ErrReplicas) }

// moving reports whether some of the keys of a command are on their way to another server.
func moving(err error) bool {
	reply, ok := Replied(err)
	return ok && reply.IsTryAgain()
}

// unheardOf reports whether a server does not know a command, or not that subcommand.
func unheardOf(err error) bool {
	said, ok := Replied(err)
	if !ok {
		return false
	}
	text := strings.ToLower(said.Error()) // before Redis 7 it begins with a capital
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand")
}

// replicaWait is the time limit for replicas to confirm a grant. Redisson's slavesSyncTimeout.
const replicaWait = time.Second

// A replicaError means that Redis granted something, and that too few replicas have confirmed that they know of it.
type replicaError struct {
	got, want int
	err       error // why the number is not known, or nil
}

func (e *replicaError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%v: %v", failure.ErrReplicas, e.err)
	}
	return fmt.Sprintf("%v: %d of %d did so within %v", failure.ErrReplicas, e.got, e.want, replicaWait)
}

func (e *replicaError) Is(target error) bool { return target == failure.ErrReplicas }
func (e *replicaError) Unwrap() error        { return e.err }
