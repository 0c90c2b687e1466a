// Lockgen writes typed distributed locks for annotated Go interfaces.
//
// Usage:
//
//	lockgen [-check | -n] [-json] [-strict | -q] [-cache auto] [-tags list] [packages]
//	lockgen list [-json | -markdown] [-tags list] [packages]
//	lockgen graph [-dot] [-tags list] [packages]
//	lockgen explain [-tags list] name [packages]
//	lockgen vet [-tags list] [packages]
//
// It reads directives above interfaces and their methods, in the packages named as for go build (by default the one in the current
// directory), and writes a file x_lockgen.go beside each x.go that has any. One run for a whole module is the usual way:
//
//	lockgen ./...
//
// # Services
//
// The directive service stands above an interface whose methods run under locks:
//
//	// Service is the orders API.
//	//
//	//lockgen:service wait=3s
//	type Service interface {
//		// Pay settles the order.
//		//
//		//lockgen:lock key=order:{o.ID}
//		Pay(ctx context.Context, o *Order, cents int64) (receipt string, err error)
//	}
//
// The output has LockedService, which implements Service: it builds the key from the arguments, acquires the lock, calls the wrapped
// service under the lock's context and releases the lock when the call returns. NewLockedService makes it of a Service and a
// lockrt.Client. ServiceKeys has a method for each locked method that builds its keys, for tools and tests. A method with several lock
// directives takes all of the locks or none. A method without a lock calls the service directly; nolock says that this is intended.
//
// An embedded method keeps the lock of its declaration, also of one in another package of the module: the options, and the key with the prefix of the
// declaring interface. Parameters of the key are matched by position. To replace the lock, write lock or nolock above the embedding
// interface, with method= and the name of the embedded method. The replacement also holds for interfaces that embed this one.
//
// # Entities
//
// The directive locks stands above an interface whose methods each declare the lock of an entity:
//
//	//lockgen:locks prefix=shop
//	type Locks interface {
//		// Order locks one order.
//		//
//		//lockgen:lock key=order:{id}
//		Order(id OrderID) lockrt.EntityMutex[OrderID]
//	}
//
// The output implements Locks; NewLocks makes one of a lockrt.Client. Do gives its function a lockrt.Held[OrderID]. This
// is a proof that functions can require: the compiler then checks that a caller holds the order's lock. The result type says
// the kind of lock: a lockrt.EntityMutex, EntityRWMutex, EntityFairMutex or EntitySemaphore, or the lockrt.EntityMulti
// of a list, which locks a mutex for each of its elements. If a method has several parameters, the entity is a struct of them.
//
// # Keys
//
// A key is literal text with placeholders {path}. A path is a parameter, then fields and methods() joined by dots; pointers on the way
// must not be nil, and methods may return an error beside their result. It ends in one of
//
//	a type with AppendLockKey([]byte) ([]byte, error), or LockKey() string    what that gives, escaped
//	a string                                                                 escaped
//	an integer, a bool                                                       in decimal, true or false
//	an encoding.TextAppender or TextMarshaler, but no time.Time              what that gives, escaped
//	[N]byte, []byte without these methods                                    in hexadecimal, upper case
//	a type parameter whose types are all some of these                       as its type argument is
//
// or a pointer to one. No value may be empty text, and two placeholders need a colon or a slash between them, so that different
// values never give the same key.
//
// {path...} names a slice, an array or a variadic parameter of such values. The template then gives one key, and so one lock, for each
// different element, in any order of the elements; the call takes all of the locks or none.
//
// One placeholder of a key can be written {{path}}: its value stands in braces in the key, so that Redis Cluster puts all
// keys with that value into one slot.
//
// Where no template suffices, a function of the package can make the key: key=@payKey calls payKey. Each parameter of
// payKey gets the parameter of the method that has the same name. payKey returns a string, which is escaped as a whole,
// or a lockrt.Key, which is used unchanged, and an error if it can fail.
//
// # Options
//
//	key=template        of a lock; or key=@function
//	wait=duration       how long to wait for it: 0 to try once, ctx (the default) until the context ends
//	watchdog=duration   the lock outlives a crashed holder by this, and is renewed every third of it while held
//	lease=duration      instead of watchdog: a fixed time that is not renewed
//	busy=error          if another holder has the lock, the call fails with lockrt.ErrNotAcquired; this is the default
//	busy=skip           in that case the method isn't called, and there is no error; without Redis the call still fails with lockrt.ErrUnavailable
//	busy=fallback       in that case the wrapper calls the method of a second implementation, which the constructor then takes
//	lost=cancel         the context of the call ends when the lock is lost, and the call's error includes the loss; this is the default
//	lost=report         the context goes on; only the call's error includes the loss
//	fence               the lease has a fencing token; lockrt.TokenFrom returns it from the context of the call
//	release=keep        the lock stays locked until its lease ends; it needs the option lease; release=auto is the default
//	min=duration        the lock stays locked at least that long, even if the call returns earlier
//	scope=iter          hold the lock until the loop over the result ends, an iter.Seq or iter.Seq2
//	scope=close         hold it until the result is closed, of an interface type with Close() error
//	scope=return        release when the method returns, although its result (an iterator, a Close, a channel, a function) outlives the call
//	after=keys          the keys of locks that are held when this one is taken, as in after=order:{}; several are quoted: "after=a:{} b:{}"
//	max=n               the most elements that a list {path...} may have, by default 64; more are an error of the call
//	linger=duration     the key stays with the client that long after the call, for its next call; at most 20ms; of mutexes without lease
//	empty=allow         an empty text or []byte is a value like others, and an empty list of a service's method locks nothing; without it they are errors of the call
//	ctx=name            the context parameter, if there are several
//	method=Name         above an interface: the embedded method that the lock or nolock is for; it replaces the directive at the method's declaration
//	kind=mutex          of a lock of a service, which is the default
//	kind=read           many readers, or one writer with kind=write; do not use their key for a mutex too, which excludes neither
//	kind=fair           first come, first served among all processes
//	kind=permit         one of the permits of a semaphore
//	kind=red            a lock on a majority of independent servers, whose clients the constructor takes
//	permits=n           with kind=permit, and for a method that returns a lockrt.EntitySemaphore: how many callers can hold one at once
//	name=Name           of the generated wrapper (service) or its constructor (locks)
//	prefix=text         in front of all keys that an interface declares, followed by a colon
//	require=all         each method of the service must have a lock or a nolock
//
// The options wait, watchdog, lease and lost can stand on a lock, on the interface, and in a directive defaults in the package comment. The
// most specific one wins; for an inherited lock the embedding interface wins. Options of the constructor override all annotations. A method takes its locks together:
// wait, watchdog, lease, busy, lost, release, min, linger, scope and ctx of one lock hold for all locks of the method, and must not contradict each
// other.
//
// # Vet
//
// The command vet runs go vet with the analyzers of package [github.com/lockgen/lockgen/cmd/lockgen/vet], which look at
// how locks are used. Lockgen is also a tool for go vet itself: go vet -vettool=$(which lockgen) ./... Possible
// mistakes, such as an unbounded wait, are warnings: lockgen vet prints them and does not fail because of them, and go
// vet leaves them out.
//
// # Results
//
// Every directive has an effect or is an error; a comment that looks like a misspelt directive is an error, too. Lockgen prints all mistakes
// of a run with their places, and then writes nothing. The package need not compile: it may mention code that lockgen has not generated yet.
//
// With -check lockgen writes nothing, and prints a diff for each file that is missing, outdated or edited by hand. With -n it prints only their names. With -json
// it prints all as one JSON object with the arrays diagnostics, notes, services and files, and with -check the string diff.
//
// A run that finds all files up to date stores the checksums of all its inputs in the user's cache directory. If no input has changed, the next
// run relies on them and takes a tenth of the time. A run also stores checksums for each package and the declarations that it imports: the next run
// generates only packages whose inputs have changed, and takes half the time. The cache is off in CI, where the environment has CI, and with -cache=off.
//
// # All locks together
//
// Lockgen checks the locks of all packages of a run together. It is a mistake if keys of one shape, such as order:{}, are built of two types in
// one program. It is a mistake if locks can wait for each other: the orders in which methods take several locks (by their keys) and
// the orders that the option after declares must not make a circle. It is a warning if two templates can give one key, if a typed lock takes any string
// or integer, and if two typed locks of one interface have one type. Warnings do not stop a run; -strict makes them mistakes, and -q hides them.
//
// The commands list, graph and explain show which methods take which locks. They read all packages below the directory unless others are named:
//
//	lockgen list                    a table of methods, keys and options; -json and -markdown for programs and documents
//	lockgen graph                   methods, their locks, and the order of locks, for Mermaid; -dot for graphviz
//	lockgen explain Service.Pay     all about one method, or about all of an interface
//	lockgen explain order:42        the methods that lock this key
//
// The exit code is 0 if all is written or up to date, 1 if the input has mistakes or, with -check, something differs, and 2 if the
// arguments are wrong or the run failed.
package main

import (
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/cmd/lockgen/vet"
)

func main() {
	if vet.Asked(os.Args[1:]) {
		unitchecker.Main(vet.Analyzers()...)
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		pace()
	}
	os.Exit(cli.Main(os.Args[1:], cli.Dir(), os.Stdout, os.Stderr))
}
