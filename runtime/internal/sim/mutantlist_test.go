package sim

// allMutants are faults of the kind that somebody might make.
var allMutants = []mutant{
	{
		name: "trust counted from the answer", kind: "mutex",
		old: "		r.promote(op.room(w), trace.Granted, tk, w, sent, op.Terms.TTL)\n", new: "		r.promote(op.room(w), trace.Granted, tk, w, core.Now(), op.Terms.TTL+op.Terms.TTL/10)\n",
	},
	{
		name: "a hand-over is trusted for a whole lease", kind: "mutex",
		old: "r.Promote(trace.Handed, tk, w, from, first)", new: "r.Promote(trace.Handed, tk, w, from, w.Terms.TTL)",
	},
	{
		name: "trust of a renewal counted from its answer", kind: "mutex",
		old: "			w.confirm(l, now, ttls[i])\n", new: "			w.confirm(l, answered, ttls[i]+ttls[i]/10)\n",
	},
	{
		name: "no margin", kind: "mutex",
		old: "	return min(ttl/10, 3*time.Second)\n", new: "	return -ttl / 10\n",
	},
	{
		name: "an owner is used again", kind: "mutex",
		old: "	n := r.Client.ticketNumbers.Add(1)\n", new: "	n := max(1, r.Client.ticketNumbers.Load())\n	r.Client.ticketNumbers.Store(n)\n",
	},
	{
		name: "renewal unchecked", kind: "mutex", script: "renew.lua",
		old: "  if held == 1 then\n", new: "  if held ~= nil then\n",
	},
	{
		name: "refused renewals believed", kind: "mutex",
		old: "		errs[i] = watchdog.ErrRefused\n", new: "		errs[i] = nil\n",
	},
	{
		name: "release without owner", kind: "mutex", script: "release.lua",
		old: "freed and 1 or redis.pcall('hdel', lock, owner_of(place))\n", new: "freed and 1 or redis.pcall('del', lock)\n",
	},
	{
		name: "free without owner", kind: "mutex", script: "free.lua",
		old: "    what = pcall('hdel', KEYS[i], ARGV[i + 2])\n", new: "    what = pcall('del', KEYS[i])\n",
	},
	{
		name: "taken without a look", kind: "mutex", script: "acquire.lua",
		old: "  if ttl ~= -2 and redis.call('hexists', lock, owner) == 0 then\n", new: "  if ttl > 1000 and redis.call('hexists', lock, owner) == 0 then\n",
	},
	{
		name: "token from the counter alone", kind: "mutex", script: "handover.lua",
		old: "  local first = math.max(last + 1, now[1] * 1000000 + now[2])\n", new: "  local first = last + 1\n",
	},
	{
		name: "line not cleaned", kind: "mutex", script: "release.lua",
		old: "    local stood = redis.pcall('lrem', waiting, '1', place) == 1\n", new: "    local stood = false\n",
	},
	{
		name: "hand-over to the deaf", kind: "mutex", script: "handover.lua",
		old: "token))) > 0 then\n", new: "token))) >= 0 then\n",
	},
	{
		name: "hand-over not told", kind: "mutex",
		old: "			tk.Handed(m)\n", new: "			_ = tk\n",
	},
	{
		name: "no turn after a loss", kind: "mutex",
		old: "		r.Continue(r.Kind)\n	}\n	r.Mu.Unlock()\n", new: "		r.Busy--\n	}\n	r.Mu.Unlock()\n",
	},
	{
		name: "no turn for the next when one leaves", kind: "mutex",
		old: "	if leads {\n		r.Prompt(r.Kind)\n	}\n", new: "	_ = leads\n",
	},
	{
		name: "a late grant is not given back", kind: "mutex",
		old: "	case tk.UnclaimedGrant || tk.Standing && tk.Use == ticketOfHead:\n", new: "	case tk.Standing && tk.Use == ticketOfHead && !tk.UnclaimedGrant:\n",
	},
	{
		name: "lock without a time to live", kind: "mutex", script: "acquire.lua",
		old: "    hold(lock, owner, lease)\n", new: "    redis.call('hset', lock, owner, 1)\n",
	},
	{
		name: "a fixed lease is passed on", kind: "mutex",
		old: "	return wanted == t && t.Renew && ", new: "	return wanted.Fenced == t.Fenced && ",
	},
	{
		name: "loss not told", kind: "mutex",
		old: "	for _, l := range leases {\n		l.Core().End(cause)\n	}\n", new: "	for _, l := range leases {\n		_ = l\n	}\n",
	},
	{
		name: "one more permit than there is", kind: "permits", script: "permit_acquire.lua",
		old: "sum + want > free then", new: "sum + want > free + 1 then",
	},
	{
		name: "expired permits never taken back", kind: "permits", script: "permit_acquire.lua",
		old: "if redis.call('zcount', KEYS[4], '-inf', digits(now)) > 0 then", new: "if now < 0 then",
	},
	{
		name: "a request that comes twice counts twice", kind: "semaphore", script: "counting.lua",
		old: "      return tonumber(result)\n", new: "      return nil\n",
	},
	{
		name: "a latch opens one too early", kind: "latch", script: "latch_down.lua",
		old: "if left > 1 then", new: "if left > 2 then",
	},
	{
		name: "a latch that counts down twice", kind: "latch", script: "latch_down.lua",
		old: "incrby', KEYS[1], -1)", new: "incrby', KEYS[1], -2)",
	},
	{
		name: "a waiter that gives up stays in the queue", kind: "fair", script: "fair_release.lua",
		old: "  quit(queue, times, notes, {owner}, {[owner] = wait}, now)\n", new: "",
	},
	{
		name: "the head has the lock and stays in the queue", kind: "fair", script: "fair.lua",
		old: "local function admit(queue, times, notes, owner, wait, now)\n  redis.call('lpop', queue)\n", new: "local function admit(queue, times, notes, owner, wait, now)\n",
	},
	{
		name: "the head is not told", kind: "fair", script: "fair.lua",
		old: "  say(publish, channel .. ':' .. head, '0')\n  if warn", new: "  if warn",
	},
	{
		name: "a call takes a free lock past a thread of Redisson, the head of the queue", kind: "fair besides", script: "fair_acquire.lua",
		old: "  if ttl ~= -2 or head and head ~= owner then\n", new: "  if ttl ~= -2 or head and head ~= owner and string.sub(head, 15, 15) == '8' then\n",
	},
	{
		name: "Redisson's threads are not told that it is their turn", kind: "fair besides", script: "fair.lua",
		old: "  say(publish, channel .. ':' .. head, '0')\n", new: "  if wait then\n    say(publish, channel .. ':' .. head, '0')\n  end\n",
	},
	{
		name: "a reader reads beside a writer", kind: "rw", script: "rw_read.lua",
		old: "    if wait then\n", new: "    if wait and mode ~= 'write' then\n",
	},
	{
		name: "one reader frees the lock of all", kind: "rw", script: "rw_read_release.lua",
		old: "if left > 0 then\n", new: "if left > 1e15 then\n",
	},
	{
		name: "the mark of a reader that has left stays", kind: "rw", script: "rw_read_release.lua",
		old: "redis.call('hdel', KEYS[1], ARGV[1])\nif", new: "if",
	},
	{
		name: "a turn of waiters that do not come does not end", kind: "rw", script: "rw.lua",
		old: "local grace = 100 ", new: "local grace = 100000 ",
	},
	{
		name: "a refused MultiLock keeps what it has got", kind: "multi",
		old: "	undo(ctx, behind)\n", new: "	_ = behind\n",
	},
	{
		name: "a call that was turned away does not join again", kind: "multi",
		old: "	if q.known {\n", new: "	if q.known && w == nil {\n",
	},
	{
		name: "a waiter for a red lock never slows down", kind: "red",
		old: "<<min(c.refusals, 8)", new: "<<min(c.refusals, 0)",
	},
	{
		name: "Redisson's waiters are not told of a free lock", kind: "besides", script: "free.lua",
		old: "      local reached = pcall(publish, channel, message) -- as in say.lua\n", new: "      local reached = 0\n",
	},
	{
		name: "Redisson's waiters are not told that it is their turn", kind: "besides", script: "release.lua",
		old: "  say(publish, channel, message .. message)\n", new: "",
	},
	{
		name: "a majority of two", kind: "red",
		old: "return len(m.parts)/2 + 1 }", new: "return len(m.parts) / 2 }",
	},
	{
		name: "a subscription that a server of a cluster has ended counts as one", kind: "cluster mutex",
		old: "				sink.Dropped(s.Channel)\n", new: "",
	},
	{
		name: "messages of a cluster go to the channel of no slot", kind: "cluster mutex", script: "handover.lua",
		old: "    channel = channel .. ':{' .. (string.match(here, '{([^}]+)}') or here) .. '}'\n", new: "    channel = channel .. ':{' .. here .. ':}'\n",
	},
	{
		name: "a client that hears all servers of a cluster counts where it listens", kind: "cluster mutex", script: "handover.lua",
		old: "  elseif ear == 'a' then\n", new: "  elseif ear == 'b' then\n",
	},
}
