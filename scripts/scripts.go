// Package scripts is not for import by programs: it has the Lua that the runtime runs inside Redis, one file per
// step, and changes with it.
//
// The files say.lua, handover.lua, rw.lua, fair.lua, owned.lua and counting.lua have the functions that several steps share,
// and pass.lua and queue.lua have what release and acquire do most often.
// Every other file begins with a header that describes its KEYS, its ARGV and its replies, and why it may run twice: a reply
// can get lost on its way, and then the only way to learn the outcome is to send the script again. No script of a lock
// counts anything; each sets a state that is the same after the second run as after the first. The scripts of
// semaphores and latches have to count, and store the result of each request until its client knows it.
//
// The keys in Redis have Redisson's layout, so that Java programs see their own locks: a hash under the name of the
// lock with the one field "<uuid>:<number>", the owner, and messages of decimal integers on Redisson's channels.
package scripts

import (
	"crypto/sha1" //nolint:gosec // names a script in Redis' cache, secures nothing
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
)

// A Script is one step that Redis executes as a whole.
type Script struct {
	Name string // the name of its file, without .lua
	Step string // the content of the file

	shared []*string // files with the functions that it shares with others
	sha1   func() string
}

// Source returns the text that Redis runs: the step, behind the functions that it shares with
// others. Each call makes it anew, since a process loads a script rarely: the texts of all take half a megabyte.
func (s *Script) Source() string {
	var source strings.Builder
	for _, file := range s.shared {
		source.WriteString(*file)
	}
	source.WriteString(s.Step)
	return source.String()
}

// SHA1 returns the argument of EVALSHA for the script, in lower-case hexadecimal.
func (s *Script) SHA1() string { return s.sha1() }

//go:embed say.lua
var say string

//go:embed handover.lua
var handover string

//go:embed take.lua
var take string

//go:embed free.lua
var free string

//go:embed queue.lua
var queue string

//go:embed acquire.lua
var acquire string

//go:embed pass.lua
var pass string

//go:embed release.lua
var release string

//go:embed renew.lua
var renew string

//go:embed force_unlock.lua
var forceUnlock string

//go:embed raise.lua
var raise string

//go:embed inspect.lua
var inspect string

//go:embed introduce.lua
var introduce string

//go:embed rw.lua
var rw string

//go:embed rw_read.lua
var rwRead string

//go:embed rw_read_release.lua
var rwReadRelease string

//go:embed rw_read_renew.lua
var rwReadRenew string

//go:embed rw_write.lua
var rwWrite string

//go:embed rw_write_release.lua
var rwWriteRelease string

//go:embed rw_force_unlock.lua
var rwForceUnlock string

//go:embed rw_yield.lua
var rwYield string

//go:embed fair.lua
var fair string

//go:embed owned.lua
var owned string

//go:embed fair_acquire.lua
var fairAcquire string

//go:embed fair_release.lua
var fairRelease string

//go:embed fair_leave.lua
var fairLeave string

//go:embed fair_force_unlock.lua
var fairForceUnlock string

//go:embed counting.lua
var counting string

//go:embed semaphore_acquire.lua
var semaphoreAcquire string

//go:embed semaphore_release.lua
var semaphoreRelease string

//go:embed semaphore_set.lua
var semaphoreSet string

//go:embed semaphore_drain.lua
var semaphoreDrain string

//go:embed permit_acquire.lua
var permitAcquire string

//go:embed permit_release.lua
var permitRelease string

//go:embed permit_renew.lua
var permitRenew string

//go:embed permit_lease.lua
var permitLease string

//go:embed permit_count.lua
var permitCount string

//go:embed permit_set.lua
var permitSet string

//go:embed latch_set.lua
var latchSet string

//go:embed latch_down.lua
var latchDown string

//go:embed latch_count.lua
var latchCount string

//go:embed latch_delete.lua
var latchDelete string

//go:embed elect.lua
var elect string

//go:embed leader.lua
var leader string

//go:embed every.lua
var every string

//go:embed every_done.lua
var everyDone string

// The steps of the reentrant mutex. Each file's header is its documentation.
var (
	Take        = script("take", take, alone)
	Free        = script("free", free, alone)
	Acquire     = script("acquire", acquire, append([]*string{&queue}, ofMutexes...))
	Release     = script("release", release, append([]*string{&pass}, ofMutexes...))
	Renew       = script("renew", renew, alone)
	ForceUnlock = script("force_unlock", forceUnlock, append(slices.Clip(ofMutexes), &owned))
	Inspect     = script("inspect", inspect, ofInspection)
	Raise       = script("raise", raise, alone)
)

// Introduce describes a process. No lock depends on it.
var Introduce = script("introduce", introduce, alone)

// The steps of the read-write lock. Renew renews the hold of a writer.
var (
	RWRead         = script("rw_read", rwRead, ofRW)
	RWReadRelease  = script("rw_read_release", rwReadRelease, ofRW)
	RWReadRenew    = script("rw_read_renew", rwReadRenew, ofRW)
	RWWrite        = script("rw_write", rwWrite, ofRW)
	RWWriteRelease = script("rw_write_release", rwWriteRelease, ofRW)
	RWForceUnlock  = script("rw_force_unlock", rwForceUnlock, append(slices.Clip(ofRW), &owned))
	RWYield        = script("rw_yield", rwYield, ofRW)
)

// The steps of the fair lock. Renew renews its grants, and Inspect shows them.
var (
	FairAcquire     = script("fair_acquire", fairAcquire, ofFair)
	FairRelease     = script("fair_release", fairRelease, ofFair)
	FairLeave       = script("fair_leave", fairLeave, ofFair)
	FairForceUnlock = script("fair_force_unlock", fairForceUnlock, append(slices.Clip(ofFair), &owned))
)

// The steps of semaphores, of semaphores whose permits expire, and of latches.
var (
	SemaphoreAcquire = script("semaphore_acquire", semaphoreAcquire, ofCounting)
	SemaphoreRelease = script("semaphore_release", semaphoreRelease, ofCounting)
	SemaphoreSet     = script("semaphore_set", semaphoreSet, ofCounting)
	SemaphoreDrain   = script("semaphore_drain", semaphoreDrain, ofCounting)
	PermitAcquire    = script("permit_acquire", permitAcquire, ofCounting)
	PermitRelease    = script("permit_release", permitRelease, ofCounting)
	PermitRenew      = script("permit_renew", permitRenew, ofCounting)
	PermitLease      = script("permit_lease", permitLease, ofCounting)
	PermitCount      = script("permit_count", permitCount, ofCounting)
	PermitSet        = script("permit_set", permitSet, ofCounting)
	LatchSet         = script("latch_set", latchSet, ofCounting)
	LatchDown        = script("latch_down", latchDown, ofCounting)
	LatchCount       = script("latch_count", latchCount, ofCounting)
	LatchDelete      = script("latch_delete", latchDelete, ofCounting)
)

// The steps of elections and of schedules, which stand beside a mutex.
var (
	Elect     = script("elect", elect, ofInspection)
	Leader    = script("leader", leader, alone)
	Every     = script("every", every, alone)
	EveryDone = script("every_done", everyDone, alone)
)

// All returns every script, in the order in which they are loaded.
func All() []*Script {
	return []*Script{
		Take, Free, Acquire, Release, Renew, ForceUnlock, Inspect, Raise,
		RWRead, RWReadRelease, RWReadRenew, RWWrite, RWWriteRelease, RWForceUnlock, RWYield,
		FairAcquire, FairRelease, FairLeave, FairForceUnlock,
		SemaphoreAcquire, SemaphoreRelease, SemaphoreSet, SemaphoreDrain,
		PermitAcquire, PermitRelease, PermitRenew, PermitLease, PermitCount, PermitSet,
		LatchSet, LatchDown, LatchCount, LatchDelete,
		Introduce,
		Elect, Leader, Every, EveryDone,
	}
}

// The files of shared functions that precede the scripts of the kinds.
var (
	alone        []*string
	ofMutexes    = []*string{&say, &handover}
	ofInspection = []*string{&say}
	ofRW         = []*string{&say, &handover, &rw}
	ofFair       = []*string{&say, &handover, &fair}
	ofCounting   = []*string{&say, &counting}
)

// New returns a script that shares no functions. Unlike those of [All], it is loaded when it is called first.
func New(name, step string) *Script { return script(name, step, alone) }

// script returns a script that is assembled at its first use: a program that imports this package pays for none before.
func script(name, step string, shared []*string) *Script {
	s := &Script{Name: name, Step: step, shared: shared}
	s.sha1 = sync.OnceValue(func() string {
		sum := sha1.Sum([]byte(s.Source())) //nolint:gosec // names a script, secures nothing
		return hex.EncodeToString(sum[:])
	})
	return s
}
