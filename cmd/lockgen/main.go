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
// The directive service stands above an interface whose calls are to hold locks:
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
// lockrt.Client. ServiceKeys has a method for each locked method that builds its keys, for tools and tests. Several lock directives on
// one method are taken together, all or none. A method without a lock is passed through, and nolock says that this is meant.
//
// An embedded method keeps the lock that is declared with it, also in another package of the module: its key, with the prefix of the interface that
// declares it and the parameters by their positions, and its options. Where that is not what is wanted, or not possible, lock and nolock stand above
// the interface, with method= and the name of the embedded method. That counts for those who embed the interface, too.
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
// The output implements it, NewLocks makes one of a lockrt.Client. Do gives its function a lockrt.Held[OrderID]. This
// is a proof that functions can require: the compiler then checks that a caller holds the order's lock. The result says
// the kind of lock: a lockrt.EntityMutex, EntityRWMutex, EntityFairMutex or EntitySemaphore, or the lockrt.EntityMulti
// of a list, which locks a mutex for each of its elements. A method with several parameters is about a struct of them.
//
// # Keys
//
// A key is literal text with placeholders {path}. A path is a parameter, then fields and methods() joined by dots; pointers on the way
// must not be nil, and methods may return an error beside their result. It ends in one of
//
//	a type with AppendLockKey([]byte) ([]byte, error), or LockKey() string    what that gives, escaped
//	a string                                                                 escaped
//	an integer, a bool                                                       in decimal, true or false
//	[N]byte, []byte                                                          in hexadecimal, upper case
//	an encoding.TextAppender or TextMarshaler, but no time.Time              what that gives, escaped
//	a type parameter whose types are all some of these                       as its type argument is
//
// or a pointer to one. Nothing that is written may be empty, and two placeholders need a colon or a slash between them, so that different
// values never give the same key.
//
// {path...} names a slice, an array or a variadic parameter of such values. The template then gives one key, and so one lock, for each
// element, whatever their order and however often one occurs; all are taken, or none.
//
// One placeholder of a key can be written {{path}}: its value stands in braces in the key, which is how Redis Cluster is told that all
// keys with that value belong in one slot.
//
// Where no template suffices, a function of the package can make the key: key=@payKey calls payKey with those
// parameters of the method that have the names of its own. It returns a string, which is escaped as a whole, or a
// lockrt.Key, which is taken as it is, and an error if it can fail.
//
// # Options
//
//	key=template        of a lock; or key=@function
//	wait=duration       how long to wait for it: 0 to try once, ctx (the default) until the context ends
//	watchdog=duration   the lock outlives a crashed holder by this, and is renewed every third of it while held
//	lease=duration      instead of watchdog: a fixed time that is not renewed
//	busy=error          a lock that somebody else holds is lockrt.ErrNotAcquired, which is the default
//	busy=skip           it means that the method isn't called, and nothing is wrong; that Redis is away is lockrt.ErrUnavailable
//	busy=fallback       it means that the method of a second implementation is called, which the constructor then takes
//	lost=cancel         the context of the call ends when the lock is lost, which is the default; the loss is joined to its error
//	lost=report         it is joined only
//	fence               the lease has a fencing token: lockrt.TokenFrom of the context of the call
//	release=keep        the lock stays locked until its lease ends, and so needs lease; release=auto is the default
//	min=duration        the lock stays locked at least that long, although the call returns before
//	scope=iter          hold the lock until the loop over the result ends, an iter.Seq or iter.Seq2
//	scope=close         hold it until the result is closed, of an interface type with Close() error
//	scope=return        release when the method returns, although its result (such a thing, a channel, a function) outlives that
//	after=keys          the keys of locks that are held when this one is taken, as in after=order:{}; several are quoted: "after=a:{} b:{}"
//	max=n               the most elements that a list {path...} may have, 64 if it isn't said; more are an error of the call
//	empty=allow         an empty text or []byte is a value like others, and an empty list locks nothing; without it they are errors of the call
//	ctx=name            the context parameter, if there are several
//	method=Name         above an interface: the embedded method that the lock or nolock is for; it replaces what stands where that is declared
//	kind=mutex          of a lock of a service, which is the default
//	kind=read           many readers, or one writer with kind=write; a mutex of the same key excludes neither, which is a mistake
//	kind=fair           first come, first served among all processes
//	kind=permit         one of the permits of a semaphore
//	kind=red            a lock on a majority of independent servers, whose clients the constructor takes
//	permits=n           with kind=permit, and of a method that returns a lockrt.EntitySemaphore: how many can have one at once
//	name=Name           of the generated wrapper (service) or its constructor (locks)
//	prefix=text         in front of all keys that an interface declares, followed by a colon
//	require=all         each method of the service must have a lock or a nolock
//
// The options wait, watchdog, lease and lost can stand on a lock, on the interface, and in a directive defaults in the package comment; the
// nearest counts, and for a lock that is inherited what the embedding interface says counts more. Options given to the constructor in the program count more than all of these. The locks of one method are taken together:
// what one of them says about anything but its key counts for all, and they must not contradict each other.
//
// # Vet
//
// The command vet runs go vet with the analyzers of package [github.com/lockgen/lockgen/cmd/lockgen/vet], which look at
// how locks are used. The program is a tool for go vet itself, too: go vet -vettool=$(which lockgen) ./... Possible
// mistakes, such as an unbounded wait, are warnings: lockgen vet prints it and does not fail because of it, and go vet
// leaves it out.
//
// # Results
//
// Every directive has an effect or is an error, and so is everything that looks like a misspelt one. All mistakes of a run are printed
// with their place, and then nothing is written. The package need not compile: that it mentions what is only to be generated doesn't matter.
//
// With -check nothing is written either; what is missing, outdated or edited by hand is printed as a diff. With -n it is only named. With -json
// all is printed as one JSON object with the arrays diagnostics, notes and files, and with -check the string diff.
//
// A run that finds all up to date notes the sums of all files that it depends on, in the user's cache directory; if nothing has changed the next
// one believes that, and takes a tenth of the time. It notes the same of each package, with what the packages that it imports declare: the next run
// does not generate again what nothing has changed for, and takes half the time. Not in CI, where the environment has CI, nor with -cache=off.
//
// # All locks together
//
// The locks of all packages of a run are looked at together. It is a mistake if keys of one shape, such as order:{}, are built of two types in
// one program, and if locks can wait for each other: those that one method takes, in the order of their keys, and those that are taken after
// others, as the option after says, must not make a circle. It is a warning if two templates can give one key, if a typed lock takes any string
// or integer, and if two typed locks of one interface have one type. Warnings stop nothing; they are mistakes with -strict and not printed with -q.
//
// The commands list, graph and explain show what is locked by whom. They read all packages below the directory unless others are named:
//
//	lockgen list                    a table of methods, keys and options; -json and -markdown for programs and documents
//	lockgen graph                   methods, their locks, and the order of locks, for Mermaid; -dot for graphviz
//	lockgen explain Service.Pay     all about one method, or about all of an interface
//	lockgen explain order:42        who locks this key
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
