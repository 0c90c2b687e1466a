package survey

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

const (
	// MostFields is the largest number of fields of a hash that is read as a whole, unless it is known to be a lock.
	MostFields = 64
	// MostHolders is the largest number of fields of a lock that is read.
	MostHolders = 4096
	// mostNamed is how many processes that did not answer are asked for by their ids, one after the other.
	mostNamed = 500
)

// Read adds the holders of the keys, as Redis has them. They replace those that processes named a moment before. Of a hash without an owner, it
// reads the names of the fields alone: the values of a hash that is no lock may be large.
func (w *World) Read(ctx context.Context, c *lockrt.Client, keys []string) error {
	return w.read(ctx, c, keys, 0, true, false)
}

// ReadLock adds the lock with a key that a person has named, if no process names it. It reads all holders of a lock. Of a semaphore it counts the permits
// that no process names, within the time patience.
func (w *World) ReadLock(ctx context.Context, c *lockrt.Client, key string, patience time.Duration) error {
	if l := w.Locks[key]; l != nil {
		if l.Kind == string(lockrt.KindPermit) && len(l.Waiters) == 0 { // otherwise they are counted
			countOthers(ctx, c.Redis(), []*Lock{l}, patience)
		}
		return nil
	}
	if err := w.read(ctx, c, []string{key}, 0, true, true); err != nil || w.Locks[key] != nil {
		return err
	}
	return w.readSemaphore(ctx, c.Redis(), key, patience)
}

// read is Read. With a patience, it leaves out the keys of which no server says anything for so long. If the keys are not those of strangers, they
// are of locks. It reads the locks with more than MostFields fields only if large is true.
func (w *World) read(ctx context.Context, c *lockrt.Client, keys []string, patience time.Duration, strangers, large bool) error {
	rc := c.Redis()
	within := func() (context.Context, context.CancelFunc) {
		if patience > 0 {
			return context.WithTimeout(ctx, patience)
		}
		return context.WithCancel(ctx)
	}
	mute := func(err error) bool {
		_, said := rueidis.IsRedisErr(err)
		return err != nil && !said && patience > 0 && ctx.Err() == nil
	}
	var sizes, contents rueidis.Commands
	for _, key := range keys {
		sizes = append(sizes, rc.B().Hlen().Key(key).Build(), rc.B().Pttl().Key(key).Build())
	}
	var locks []entry // of which contents asks for the fields
	bounded, done := within()
	replies := ask(bounded, rc, sizes)
	done()
	for i, key := range keys {
		n, err := replies[2*i].AsInt64()
		if said, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(said.Error(), "WRONGTYPE") {
			continue // a counter has no owner
		}
		if mute(err) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 || !large && n > MostFields {
			continue
		}
		left, err := replies[2*i+1].AsInt64()
		if mute(err) {
			continue
		}
		if err != nil {
			return err
		}
		locks = append(locks, entry{key, n, left})
	}
	if large {
		bounded, done = within()
		crowded, err := w.crowds(bounded, rc, locks)
		done()
		if err != nil && !mute(err) {
			return err
		}
		locks = slices.DeleteFunc(locks, crowded)
	}
	if strangers {
		locks = slices.DeleteFunc(locks, stranger(ctx, rc, locks))
	}
	for _, l := range locks {
		contents = append(contents, rc.B().Hgetall().Key(l.key).Build())
	}
	bounded, done = within()
	filled := ask(bounded, rc, contents)
	done()
	bounded, done = within() // for the names of all their holders
	defer done()
	known := map[string]Who{}
	for i, reply := range filled {
		fields, err := reply.AsStrMap()
		if mute(err) {
			continue
		}
		if err == nil {
			err = w.hold(ctx, bounded, c, known, locks[i].key, fields, locks[i].left)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An entry is a hash that may be a lock.
type entry struct {
	key    string
	fields int64
	left   int64 // of its time, in milliseconds
}

// crowds returns a function that reports of each of the hashes whether it has too many fields for the holders of a lock to be read. A read-write lock alone has
// more than MostFields: the field mode tells it. It may have up to MostHolders. The lock of more is in w with their number. crowds also returns
// the first error that is no answer.
func (w *World) crowds(ctx context.Context, rc rueidis.Client, hashes []entry) (func(entry) bool, error) {
	var large []entry
	var modes rueidis.Commands
	for _, h := range hashes {
		if h.fields > MostFields {
			large, modes = append(large, h), append(modes, rc.B().Hmget().Key(h.key).Field("mode").Build())
		}
	}
	var failed error
	crowd := map[string]bool{}
	for i, reply := range ask(ctx, rc, modes) {
		h := large[i]
		mode, err := reply.AsStrSlice()
		if _, said := rueidis.IsRedisErr(err); err != nil && !said && failed == nil {
			failed = err
		}
		is := err == nil && (mode[0] == kindRead || mode[0] == kindWrite)
		crowd[h.key] = !is || h.fields > MostHolders
		if is && h.fields > MostHolders {
			w.Lock(h.key, mode[0]).Many = int(h.fields) - 1 // mode is none
		}
	}
	return func(h entry) bool { return crowd[h.key] }, failed
}

// stranger returns a function that reports of each of the hashes whether it certainly is no lock: no field has the name of an owner. A user
// who may not call HKEYS has no strangers.
func stranger(ctx context.Context, rc rueidis.Client, hashes []entry) func(entry) bool {
	var names rueidis.Commands
	for _, h := range hashes {
		names = append(names, rc.B().Hkeys().Key(h.key).Build())
	}
	none := map[string]bool{}
	for i, reply := range ask(ctx, rc, names) {
		fields, err := reply.AsStrSlice()
		none[hashes[i].key] = err == nil && !slices.ContainsFunc(fields, func(field string) bool {
			_, is := holderOf(field, "", 0)
			return is
		})
	}
	return func(h entry) bool { return none[h.key] }
}

// ask sends commands in batches, all at once: however many there are, a server that does not answer is waited for once.
func ask(ctx context.Context, rc rueidis.Client, commands rueidis.Commands) []rueidis.RedisResult {
	const batch = 1000
	replies := make([]rueidis.RedisResult, len(commands))
	var all sync.WaitGroup
	for from := 0; from < len(commands); from += batch {
		to := min(from+batch, len(commands))
		all.Go(func() { copy(replies[from:to], rc.DoMulti(ctx, commands[from:to]...)) })
	}
	all.Wait()
	return replies
}

// hold has the fields of a key in Redis be its holders. The report of a process about its own hold
// stays. naming bounds the time for the names of processes.
func (w *World) hold(ctx, naming context.Context, c *lockrt.Client, known map[string]Who, key string, fields map[string]string, left int64) error {
	var named, holders []Holder
	if l := w.Locks[key]; l != nil {
		named = l.Holders
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		h, ok := holderOf(field, fields[field], left)
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(field, ":write"):
			h.kind = kindWrite
		case fields["mode"] != "":
			h.kind = kindRead
		}
		if i := slices.IndexFunc(named, func(n Holder) bool { return n.Owner == h.Owner }); i >= 0 {
			holders = append(holders, named[i])
			continue
		}
		if !h.Java {
			var err error
			if h.Who, err = whoWas(naming, c, known, h.Process); err != nil && ctx.Err() != nil {
				return err
			}
			h.Gone = w.gone(h.Process)
		}
		holders = append(holders, h)
	}
	if len(holders) > 0 {
		slices.SortStableFunc(holders, func(a, b Holder) int { return older(a.Since, b.Since) })
		l := w.Lock(key, "lock")
		if l.Holders = holders; l.Kind == kindRead || l.Kind == kindWrite {
			l.Kind = cmp.Or(holders[0].kind, l.Kind)
		}
	}
	return nil
}

// holderOf reads a field of a lock.
func holderOf(field, value string, left int64) (Holder, bool) {
	owner := strings.TrimSuffix(field, ":write")
	uuid, thread, ok := strings.Cut(owner, ":")
	if !ok || len(uuid) != 36 || strings.Count(uuid, "-") != 4 || thread == "" {
		return Holder{}, false
	}
	holds, err := strconv.Atoi(value)
	if err != nil {
		holds = 0 // the hold count is not in the value
	}
	h := Holder{Owner: field, LeftMS: left, Holds: holds}
	h.Process = uuid
	if uuid[14] != '8' {
		h.Who = Who{Process: uuid, Java: true}
		h.Name = "thread " + thread
	}
	return h, true
}

// whoWas returns what Redis knows about a process.
func whoWas(ctx context.Context, c *lockrt.Client, known map[string]Who, id string) (Who, error) {
	if who, ok := known[id]; ok {
		return who, nil
	}
	if len(known) >= mostNamed {
		return Who{Process: id}, nil
	}
	p, _, err := c.ProcessOf(ctx, id)
	p.ID = id // reading more may not be permitted
	known[id] = whoOf(p)
	return known[id], err
}
