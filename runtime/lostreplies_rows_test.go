package lockrt_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file has the rows of TestLostReplies.

// lossyLocks make what is locked by one client at a time, or is read, for the time of a test.
var lossyLocks = map[string]func(c *lockrt.Client, key string) any{
	"Mutex":                  func(c *lockrt.Client, key string) any { return c.Mutex(key, unexpiring) },
	"Mutex with a token":     func(c *lockrt.Client, key string) any { return c.Mutex(key, unexpiring, lockrt.WithFencing()) },
	"FairMutex":              func(c *lockrt.Client, key string) any { return c.FairMutex(key, unexpiring) },
	"FairMutex with a token": func(c *lockrt.Client, key string) any { return c.FairMutex(key, unexpiring, lockrt.WithFencing()) },
	"RWMutex":                func(c *lockrt.Client, key string) any { return c.RWMutex(key, unexpiring) },
	"RWMutex with a token":   func(c *lockrt.Client, key string) any { return c.RWMutex(key, unexpiring, lockrt.WithFencing()) },
	"rLocker":                func(c *lockrt.Client, key string) any { return c.RWMutex(key, unexpiring).RLocker() },
	"MultiLock": func(c *lockrt.Client, key string) any {
		return lockrt.NewMultiLock(c.Mutex(key, unexpiring), c.FairMutex(key+"f", unexpiring), c.RWMutex(key+"w", unexpiring).RLocker())
	},
	"MultiLock of mutexes": func(c *lockrt.Client, key string) any {
		return lockrt.NewMultiLock(c.Mutex(key, unexpiring), c.Mutex(key+"2", unexpiring))
	},
	"RedLock": func(c *lockrt.Client, key string) any {
		return lockrt.RedLockOf(c.Mutex(key, unexpiring), c.Mutex(key+"2", unexpiring), c.Mutex(key+"3", unexpiring))
	},
	"EntityMutex":     func(c *lockrt.Client, key string) any { return gen.For(c, lossySpec, "id", key, nil) },
	"EntityFairMutex": func(c *lockrt.Client, key string) any { return gen.ForFair(c, lossySpec, "id", key, nil) },
	"EntityRWMutex":   func(c *lockrt.Client, key string) any { return gen.ForRW(c, lossySpec, "id", key, nil) },
	"EntityMulti": func(c *lockrt.Client, key string) any {
		return gen.ForMulti(c, lossySpec, []string{"a", "b"}, []string{key, key + "2"}, nil)
	},
}

var lossySpec = &gen.Spec{Name: "n", Watchdog: time.Minute, Wait: lockrt.UntilDone}

// lossyReleases are the scripts that give back.
var lossyReleases = redistest.EvalSHA(scripts.Free.SHA1(), scripts.Release.SHA1(), scripts.FairRelease.SHA1(), scripts.RWWriteRelease.SHA1(), scripts.RWReadRelease.SHA1(),
	scripts.SemaphoreRelease.SHA1(), scripts.PermitRelease.SHA1())

// lossyRows returns the rows by the names of their methods, each of which may have a remark after it.
func lossyRows(t *testing.T) map[string]lostRow {
	t.Helper()
	rows, some := maps.Clone(lossyCounts), newClient(t, lockrt.Options{})
	maps.Copy(rows, lossyClients)
	for kind, of := range lossyLocks {
		name, remark, remarked := strings.Cut(kind, " ")
		entity := strings.HasPrefix(name, "Entity")
		typ := reflect.TypeOf(of(some, "k"))
		for i := range typ.NumMethod() {
			method, row := typ.Method(i).Name, lossyLock(name, of)
			if remarked && method != "Lock" {
				continue
			}
			switch method {
			case "Lock", "RLock":
				rows[strings.TrimSpace(name+"."+method+" "+remark)] = lostRow{of: row.free}
				if !remarked && !entity {
					rows[name+"."+method+" after another"] = lostRow{of: row.after}
					rows[name+"."+method+" again"] = lostRow{of: row.again(method), here: true}
				}
			case "TryLock", "TryRLock":
				rows[name+"."+method] = lostRow{of: row.free}
			case "Do", "RDo":
				rows[name+"."+method] = lostRow{of: row.free}
				if !entity {
					rows[name+"."+method+" at its end"] = lostRow{of: row.free, lose: lossyReleases}
				}
			case "Inspect":
				rows[name+"."+method] = lostRow{of: row.held("Lock"), asks: true}
			case "ForceUnlock", "ForceRUnlock":
				rows[name+"."+method] = lostRow{of: func(x *lossy) any {
					x.foreign(strings.Contains(name, "RW"), method == "ForceRUnlock")
					return of(x.client, x.key)
				}, asks: true}
			}
		}
		if !entity {
			lease := func(x *lossy) any { return x.takes(lossyLock(name, of).free(x), "Lock") }
			rows["Lease.Unlock of "+kind] = lostRow{of: lease}
			if remarked {
				continue
			}
			rows["Lease.TTL of "+kind] = lostRow{of: lease, asks: true}
			rows["Lease.Extend of "+kind] = lostRow{of: lease, args: []any{time.Hour}, asks: true}
		}
	}
	return rows
}

// lossyOwner is a client that does not run: it sends no request that could be late.
const lossyOwner = "0b6a1f0e-90ce-8c12-a4b5-6b1c5f0d7f3e:1"

// foreign locks the keys of a row for another client, as a mutex or as a read-write lock.
func (x *lossy) foreign(rw, reads bool) {
	fields := []string{lossyOwner, "1"}
	switch {
	case reads:
		fields = append(fields, "mode", "read")
		x.server.Do("SET", "{"+x.key+"}:"+lossyOwner+":rwlock_timeout:1", "1", "PX", "60000")
	case rw:
		fields = []string{"mode", "write", lossyOwner + ":write", "1"}
	}
	for _, key := range []string{x.key, x.key + "2", x.key + "3"} { // of a RedLock
		x.server.Do(append([]string{"HSET", key}, fields...)...)
		x.server.Do("PEXPIRE", key, "60000")
		x.back = append(x.back, func() error { return x.server.Do("DEL", key).Error() })
	}
}

// A lossyState has the states of a lock.
type lossyState struct {
	free, after func(x *lossy) any                     // free, and held by another client until the request is there
	held, again func(method string) func(x *lossy) any // held by that method, and under the owner that holds it
}

func lossyLock(name string, of func(c *lockrt.Client, key string) any) (s lossyState) {
	s.free = func(x *lossy) any {
		if name == "RedLock" {
			x.parts = 3
		}
		return of(x.client, x.key)
	}
	s.after = func(x *lossy) any {
		other := of(newClient(x.t, lockrt.Options{}), x.key)
		if name == "rLocker" { // readers do not wait for each other
			other = newClient(x.t, lockrt.Options{}).RWMutex(x.key)
		}
		held := x.bind(other, "Lock", nil)()[0].Interface().(*lockrt.Lease)
		x.meanwhile = func() { free(x.t, held) }
		return s.free(x)
	}
	s.held = func(method string) func(x *lossy) any {
		return func(x *lossy) any {
			m := s.free(x)
			x.takes(m, method)
			return m
		}
	}
	s.again = func(method string) func(x *lossy) any {
		return func(x *lossy) any {
			x.ctx = lockrt.WithOwner(x.ctx, lockrt.NewOwner())
			return s.held(method)(x)
		}
	}
	return s
}

// lossySemaphore returns a semaphore with 10 permits, of which 4 are taken.
func lossySemaphore(x *lossy) *lockrt.Semaphore {
	s := x.client.Semaphore(x.key, 10)
	require.NoError(x.t, s.Acquire(x.ctx, 4))
	return s
}

// lossyPermits returns a semaphore with 10 permits, of which one is taken.
func lossyPermits(x *lossy) (*lockrt.PermitSemaphore, *lockrt.Permit) {
	s := x.client.PermitSemaphore(x.key, 10, unexpiring)
	return s, x.takes(s, "Acquire").(*lockrt.Permit)
}

func lossyPermit(x *lossy) any { _, p := lossyPermits(x); return p }

func lossyLatch(x *lossy) any {
	l := x.client.CountDownLatch(x.key)
	_, err := l.SetCount(x.ctx, 5)
	require.NoError(x.t, err)
	return l
}

func lossyEntityPermits(x *lossy) any {
	return gen.ForPermits(x.client, lossySpec, 10, "id", x.key, nil)
}

// lossyCounts are the rows of what counts.
var lossyCounts = map[string]lostRow{
	"Semaphore.Acquire":              {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}},
	"Semaphore.Acquire of a new one": {of: func(x *lossy) any { return x.client.Semaphore(x.key, 10) }, args: []any{3}},
	"Semaphore.Acquire after another": {of: func(x *lossy) any {
		s := lossySemaphore(x)
		x.meanwhile = func() { require.NoError(x.t, s.Release(x.ctx, 4)) }
		return s
	}, args: []any{8}},
	"Semaphore.TryAcquire":             {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}},
	"Semaphore.TryAcquire of too many": {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{7}},
	"Semaphore.Available":              {of: func(x *lossy) any { return lossySemaphore(x) }, asks: true},
	"Semaphore.Do":                     {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}},
	"Semaphore.Do at its end":          {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}, lose: lossyReleases},
	"Semaphore.Drain":                  {of: func(x *lossy) any { return lossySemaphore(x) }},
	"Semaphore.Release":                {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}},
	"Semaphore.ReleaseIfExists":        {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{3}},
	"Semaphore.Resize":                 {of: func(x *lossy) any { return lossySemaphore(x) }, args: []any{-2}},
	"Semaphore.TrySetPermits":          {of: func(x *lossy) any { return x.client.Semaphore(x.key, 0) }, args: []any{5, time.Hour}},

	"PermitSemaphore.Acquire": {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }},
	"PermitSemaphore.Acquire after another": {of: func(x *lossy) any {
		s := x.client.PermitSemaphore(x.key, 3, unexpiring)
		p := permit(x.t, s, 3)
		x.meanwhile = func() { require.NoError(x.t, p.Release(x.ctx)) }
		return s
	}},
	"PermitSemaphore.AcquireN":                {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, args: []any{3}},
	"PermitSemaphore.TryAcquire":              {of: func(x *lossy) any { return x.client.PermitSemaphore(x.key, 10, unexpiring) }},
	"PermitSemaphore.TryAcquireN":             {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, args: []any{3}},
	"PermitSemaphore.TryAcquireN of too many": {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, args: []any{10}},
	"PermitSemaphore.Acquired":                {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, asks: true},
	"PermitSemaphore.Available":               {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, asks: true},
	"PermitSemaphore.Total":                   {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, asks: true},
	"PermitSemaphore.Inspect":                 {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, asks: true},
	"PermitSemaphore.Do":                      {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }},
	"PermitSemaphore.Do at its end":           {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, lose: lossyReleases},
	"PermitSemaphore.Release": {of: func(x *lossy) any {
		s, p := lossyPermits(x)
		return func(ctx context.Context) error { return s.Release(ctx, p.PermitID()) }
	}},
	"PermitSemaphore.TTL": {of: func(x *lossy) any {
		s, p := lossyPermits(x)
		return func(ctx context.Context) (time.Duration, error) { return s.TTL(ctx, p.PermitID()) }
	}, asks: true},
	"PermitSemaphore.UpdateLease": {of: func(x *lossy) any {
		s, p := lossyPermits(x)
		return func(ctx context.Context) (bool, error) { return s.UpdateLease(ctx, p.PermitID(), time.Hour) }
	}, asks: true},
	"PermitSemaphore.Resize":        {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, args: []any{-2}},
	"PermitSemaphore.SetPermits":    {of: func(x *lossy) any { s, _ := lossyPermits(x); return s }, args: []any{4}},
	"PermitSemaphore.TrySetPermits": {of: func(x *lossy) any { return x.client.PermitSemaphore(x.key, 0) }, args: []any{5, time.Hour}},
	"Permit.Extend":                 {of: lossyPermit, args: []any{time.Hour}, asks: true},
	"Permit.Release":                {of: lossyPermit},
	"EntitySemaphore.Acquire":       {of: lossyEntityPermits},
	"EntitySemaphore.TryAcquire":    {of: lossyEntityPermits},
	"EntitySemaphore.Available":     {of: lossyEntityPermits, asks: true},
	"EntitySemaphore.Do":            {of: lossyEntityPermits},

	"CountDownLatch.Count":     {of: lossyLatch, asks: true},
	"CountDownLatch.CountDown": {of: lossyLatch},
	"CountDownLatch.CountDown to zero": {of: func(x *lossy) any {
		l := x.client.CountDownLatch(x.key)
		_, err := l.SetCount(x.ctx, 1)
		require.NoError(x.t, err)
		return l
	}},
	"CountDownLatch.Delete":   {of: lossyLatch},
	"CountDownLatch.SetCount": {of: func(x *lossy) any { return x.client.CountDownLatch(x.key) }, args: []any{5}},
	"CountDownLatch.Wait": {of: func(x *lossy) any {
		l := lossyLatch(x)
		x.meanwhile = func() {
			for range 5 {
				_, err := newClient(x.t, lockrt.Options{}).CountDownLatch(x.key).CountDown(x.ctx)
				require.NoError(x.t, err)
			}
		}
		return l
	}},
}

func lossyOffice(x *lossy) *lockrt.Election { return x.client.Election(x.key, unexpiring) }

func lossyLeads(x *lossy) *lockrt.Leadership {
	l, err := lossyOffice(x).Campaign(x.ctx, "a")
	require.NoError(x.t, err)
	x.gives(l)
	return l
}

// lossyClients are the rows of clients, elections and schedules.
var lossyClients = map[string]lostRow{
	"Election.Campaign":               {of: func(x *lossy) any { return lossyOffice(x) }, args: []any{"a"}},
	"Election.Campaign at its record": {of: func(x *lossy) any { return lossyOffice(x) }, args: []any{"a"}, lose: redistest.EvalSHA(scripts.Elect.SHA1())},
	"Election.Lead":                   {of: func(x *lossy) any { return lossyOffice(x) }, args: []any{"a"}},
	"Election.Lead at its end":        {of: func(x *lossy) any { return lossyOffice(x) }, args: []any{"a"}, lose: lossyReleases},
	"Election.Leader":                 {of: func(x *lossy) any { lossyLeads(x); return lossyOffice(x) }, asks: true},
	"Election.Observe": {of: func(x *lossy) any {
		lossyLeads(x)
		return func(ctx context.Context) (lockrt.Leader, error) {
			for leader, err := range lossyOffice(x).Observe(ctx) {
				if err == nil {
					return leader, nil
				}
			}
			return lockrt.Leader{}, errors.ErrUnsupported
		}
	}},
	"Leadership.Proclaim":             {of: func(x *lossy) any { return lossyLeads(x) }, args: []any{"b"}, asks: true},
	"Leadership.Resign":               {of: func(x *lossy) any { return lossyLeads(x) }},
	"Leadership.Resign at its record": {of: func(x *lossy) any { return lossyLeads(x) }, lose: redistest.EvalSHA(scripts.Elect.SHA1())},
	"CurrentLease.Extend": {of: func(x *lossy) any {
		held, _ := lockrt.LeaseFrom(x.takes(x.client.Mutex(x.key, unexpiring), "Lock").(*lockrt.Lease).Context())
		return held
	}, args: []any{time.Hour}, asks: true},
	"Schedule.Run":                  {of: lossySchedule},
	"Schedule.Run at its beginning": {of: lossySchedule, lose: func(cmd []string) bool { return redistest.EvalSHA(scripts.Every.SHA1())(cmd) && cmd[6] != "" }},
	"Schedule.Run at its end":       {of: lossySchedule, lose: redistest.EvalSHA(scripts.EveryDone.SHA1())},
	"Client.ForceUnlock": {of: func(x *lossy) any {
		x.foreign(false, false)
		return func(ctx context.Context) (bool, error) { return x.client.ForceUnlock(ctx, x.key, lossyOwner) }
	}, asks: true},
	"Client.Fleet": {of: func(x *lossy) any {
		server := redistest.Server(x.t) // no other processes answer
		x.line = &line{server: server, proxy: redistest.Proxy(x.t, server.Addr()), key: x.key}
		x.client = clientOf(x.t, x.proxy.URL(), brisk)
		x.gives(ok(x.t)(clientOf(x.t, server.URL(), lockrt.Options{}).Mutex(x.key, unexpiring).Lock(x.ctx)))
		answering := func(ctx context.Context) (int, error) {
			f, err := x.client.Fleet(ctx, x.key)
			return len(f.Processes), err
		}
		until(x.t, "the other process answers", func() bool { n, err := answering(x.ctx); return err == nil && n == 2 })
		return answering
	}, lose: redistest.Command("PUBSUB"), asks: true},
	"Client.Shutdown": {of: func(x *lossy) any { x.lingers(); return x.client }},
	"Client.Close":    {of: func(x *lossy) any { x.lingers(); return x.client }},
	"Client.ProcessOf": {of: func(x *lossy) any {
		x.server.Do("HSET", "lockgen_process:"+x.key, "name", "n", "host", "h")
		x.back = append(x.back, func() error { return x.server.Do("DEL", "lockgen_process:"+x.key).Error() })
		return func(ctx context.Context) (lockrt.Process, bool, error) { return x.client.ProcessOf(ctx, x.key) }
	}, asks: true},
	"Open": {of: func(x *lossy) any {
		return func(ctx context.Context) (*lockrt.Client, error) { return lockrt.Open(ctx, x.proxy.URL(), brisk) }
	}, lose: redistest.Command("HELLO"), asks: true},
}

// lingers has the client keep a key that nobody holds.
func (x *lossy) lingers() {
	lockrt.LingerFor(x.client, 30*time.Minute)
	until(x.t, "a key lingers, since the client hears other processes", func() bool {
		free(x.t, ok(x.t)(x.client.Mutex(x.key, unexpiring).Lock(x.ctx)))
		return lingers(x.client, x.key) != nil
	})
}

// lossySchedule returns what runs a schedule until it has run once.
func lossySchedule(x *lossy) any {
	return func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		runs := 0
		err := x.client.Every(x.key, 7*24*time.Hour, func(context.Context, lockrt.Tick) error {
			runs++
			cancel()
			return nil
		}, unexpiring).Run(ctx)
		return runs, err
	}
}
