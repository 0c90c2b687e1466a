package sim

// strayMutants leave the protocol of a lock in ways that break no promise, or none that is noticed at once: the margin of each lease hides
// some, others are slower or less fair. The replay of their traces rejects them.
var strayMutants = []mutant{
	{
		strays: true, name: "trust counted from the answer, within the margin", kind: "mutex",
		old: "		r.promote(op.room(w), trace.Granted, tk, w, sent, op.Terms.TTL)\n", new: "		r.promote(op.room(w), trace.Granted, tk, w, core.Now(), op.Terms.TTL)\n",
	},
	{
		strays: true, name: "trust of a renewal counted from its answer, within the margin", kind: "mutex",
		old: "			w.confirm(l, now, ttls[i])\n", new: "			w.confirm(l, answered, ttls[i])\n",
	},
	{
		strays: true, name: "a hand-over is trusted from its message on", kind: "mutex",
		old: "		from = was.seen.earliest(at)\n", new: "		from = received\n",
	},
	{
		strays: true, name: "a hand-over lasts twice as long", kind: "mutex", script: "handover.lua",
		old: "pcall(hold, lock, owner or place, claim)", new: "pcall(hold, lock, owner or place, 2 * claim)",
	},
	{
		strays: true, name: "a renewal is for twice as long", kind: "mutex", script: "renew.lua",
		old: "  local lock, lease = KEYS[i], ARGV[2 * i]\n", new: "  local lock, lease = KEYS[i], 2 * ARGV[2 * i]\n",
	},
	{
		strays: true, name: "the last to come stands first", kind: "mutex", script: "handover.lua",
		old: "    length = redis.call('rpush', waiting, place)\n", new: "    length = redis.call('lpush', waiting, place)\n",
	},
	{
		strays: true, name: "the last in line is next", kind: "mutex", script: "pass.lua",
		old: "next = try('lpop', waiting)", new: "next = try('rpop', waiting)",
	},
	{
		strays: true, name: "a call that does not wait stands in line", kind: "mutex", script: "acquire.lua",
		old: "    if line ~= '0' and (stand(waiting, place, ttl) == 1 or line == '2') then\n", new: "    if stand(waiting, place, ttl) == 1 or line == '2' then\n",
	},
	{
		strays: true, name: "an owner that is granted the lock stays in line", kind: "mutex", script: "acquire.lua",
		old: "  if line == '2' then\n", new: "  if line == '3' then\n",
	},
	{
		strays: true, name: "nobody is handed the lock", kind: "mutex", script: "release.lua",
		old: "  if start == '0' or redis.call('exists', waiting) == 0 or listening(publish, channel) == 0 then\n", new: "  if start == '-1' then\n",
	},
	{
		strays: true, name: "freed past the line", kind: "mutex", script: "free.lua",
		old: "  if nobody or call('exists', waiting) == 0 then\n", new: "  if true then\n",
	},
	{
		strays: true, name: "renewed after Unlock", kind: "mutex",
		old: "	r.Client.Watchdog.Stop(&g.Guard)\n	return r.ReleaseOf", new: "	return r.ReleaseOf",
	},
	{
		strays: true, name: "asks while it asks", kind: "mutex",
		old: "		if l.ready(w, by) {\n", new: "		if !by.Excludes(w) {\n",
	},
	{
		strays: true, name: "a token that the server has not drawn", kind: "mutex",
		old: "engine.NewTokens(reply.Token, max(op.Drawn, 1))", new: "engine.NewTokens(reply.Token+1, max(op.Drawn, 1))",
	},
	{
		strays: true, name: "a token of a hand-over that the server has not drawn", kind: "mutex",
		old: "engine.NewTokens(m.Token, tokens)", new: "engine.NewTokens(m.Token+1, tokens)",
	},
	{
		strays: true, name: "readers pass writers in line", kind: "rw", script: "rw.lua",
		old: "or left > 0 and whose == 'read') and redis.call('exists', writers) == 0 then", new: "or left > 0 and whose == 'read') then",
	},
	{
		strays: true, name: "the side that was last is first", kind: "rw", script: "rw.lua",
		old: "if (last == 'write') == (i == 1) then", new: "if (last == 'write') ~= (i == 1) then",
	},
	{
		strays: true, name: "the last in line to write is called", kind: "rw", script: "rw.lua",
		old: "redis.call('lpop', writers)", new: "redis.call('rpop', writers)",
	},
	{
		strays: true, name: "a turn counts twice as long", kind: "rw", script: "rw.lua",
		old: "redis.pcall('set', turn, whose .. ' ' .. last .. ' ' .. places, 'px', known + ms)", new: "redis.pcall('set', turn, whose .. ' ' .. last .. ' ' .. places, 'px', known + 2 * ms)",
	},
	{
		strays: true, name: "a waiter that leaves is called still", kind: "rw", script: "rw.lua",
		old: "function(place) return place == owner end", new: "function() return false end",
	},
	{
		strays: true, name: "the last to come stands first in the queue", kind: "fair", script: "fair_acquire.lua",
		old: "redis.call('rpush', queue, owner) - 1\n", new: "redis.call('lpush', queue, owner) - 1\n",
	},
	{
		strays: true, name: "a place lasts twice as long", kind: "fair", script: "fair_acquire.lua",
		old: "(tonumber(before or nil) or last) + wait, owner)", new: "(tonumber(before or nil) or last) + 2 * wait, owner)",
	},
	{
		strays: true, name: "a call that does not wait stands in the queue", kind: "fair", script: "fair_acquire.lua",
		old: "    if ARGV[3] ~= '0' then\n", new: "    if true then\n",
	},
	{
		strays: true, name: "a grant by a message lasts twice as long", kind: "fair", script: "fair.lua",
		old: "pcall(hold, lock, head, lease)", new: "pcall(hold, lock, head, 2 * lease)",
	},
	{
		strays: true, name: "those behind do not come forward", kind: "fair", script: "fair.lua",
		old: "  forward(times, wait, now)\n", new: "",
	},
	{
		strays: true, name: "a waiter that wants something else follows", kind: "fair", script: "fair.lua",
		old: "if not follows(owner) or redis.call('hget', notes, owner) ~= note then", new: "if not follows(owner) then",
	},
	{
		strays: true, name: "a holder that has released is the last that was granted it", kind: "fair", script: "fair_release.lua",
		old: "  redis.call('hdel', notes, 'last')\n  return pass_on()\n", new: "  return pass_on()\n",
	},
	{
		strays: true, name: "a place ends a second early", kind: "fair", script: "fair.lua",
		old: "    if not time or time > now then\n", new: "    if not time or time > now + 1000 then\n",
	},
	{
		strays: true, name: "the places of Redisson's threads do not come forward", kind: "fair besides", script: "fair.lua",
		old: "    later[#later + 1] = string.format('%.0f', earlier(tonumber(all[i + 1]), ms, now))\n",
		new: "    later[#later + 1] = string.format('%.0f', string.sub(all[i], 15, 15) == '8' and earlier(tonumber(all[i + 1]), ms, now) or tonumber(all[i + 1]))\n",
	},
	{
		strays: true, name: "Redisson's threads keep places that are over", kind: "fair besides", script: "fair.lua",
		old: "    if not time or time > now then\n", new: "    if not time or time > now or string.sub(head, 15, 15) ~= '8' then\n",
	},
	{
		strays: true, name: "a permit lasts twice as long", kind: "permits", script: "permit_acquire.lua",
		old: "local over = now + tonumber(ARGV[i + 1])", new: "local over = now + 2 * tonumber(ARGV[i + 1])",
	},
	{
		strays: true, name: "a permit is renewed for twice as long", kind: "permits", script: "permit_renew.lua",
		old: "local new = now + tonumber(ARGV[2 * i + 1])", new: "local new = now + 2 * tonumber(ARGV[2 * i + 1])",
	},
	{
		strays: true, name: "a renewal cuts a permit short", kind: "permits", script: "permit_renew.lua",
		old: "      if tonumber(redis.call('zscore', leases, id)) < new then\n", new: "      if true then\n",
	},
	{
		strays: true, name: "the next permit expires a second later", kind: "permits", script: "permit_acquire.lua",
		old: "return {granted, first - now, ttl}", new: "return {granted, first - now + 1000, ttl}",
	},
	{
		strays: true, name: "permits come back without a word", kind: "permits", script: "permit_release.lua",
		old: "  announce(ARGV[2], KEYS[2], free)\n", new: "",
	},
	{
		strays: true, name: "how many came back is published", kind: "permits", script: "permit_release.lua",
		old: "  announce(ARGV[2], KEYS[2], free)\n", new: "  announce(ARGV[2], KEYS[2], #ids)\n",
	},
	{
		strays: true, name: "one permit is set to last twice as long", kind: "permits", script: "permit_lease.lua",
		old: "    over = now + tonumber(ARGV[3])\n", new: "    over = now + 2 * tonumber(ARGV[3])\n",
	},
	{
		strays: true, name: "one permit is said to last a second longer", kind: "permits", script: "permit_lease.lua",
		old: "local left = over - now\n", new: "local left = over - now + 1000\n",
	},
	{
		strays: true, name: "as many permits as before are announced", kind: "permits", script: "permit_set.lua",
		old: "if now ~= free then\n", new: "if true then\n",
	},
	{
		strays: true, name: "a semaphore that is there is created again", kind: "permits", script: "semaphore_set.lua",
		old: "local set = {'set', KEYS[1], digits(free), 'NX'}", new: "local set = {'set', KEYS[1], digits(free)}",
	},
	{
		strays: true, name: "a latch starts without a word", kind: "latch", script: "latch_set.lua",
		old: "  say(ARGV[5], KEYS[2], ARGV[6])\n", new: "",
	},
	{
		strays: true, name: "an open latch is announced as a new one", kind: "latch", script: "latch_down.lua",
		old: "say(ARGV[5], KEYS[2], ARGV[4])\n", new: "say(ARGV[5], KEYS[2], '1')\n",
	},
	{
		strays: true, name: "an open latch stays, at nothing", kind: "latch", script: "latch_down.lua",
		old: "if left > 1 then", new: "if left > 0 then",
	},
	{
		strays: true, name: "a latch is read as one more", kind: "latch", script: "latch_count.lua",
		old: "  return left\nend\nif", new: "  return left + 1\nend\nif",
	},
	{
		strays: true, name: "the result that is kept of a latch is the count before", kind: "latch", script: "latch_down.lua",
		old: "digits(math.max((left or 1) - 1, 0)))", new: "digits(left or 1))",
	},
	{
		strays: true, name: "a running latch starts again", kind: "latch", script: "latch_set.lua",
		old: "if redis.call('set', KEYS[1], ARGV[4], 'NX') then", new: "if redis.call('set', KEYS[1], ARGV[4]) then",
	},
	{
		strays: true, name: "a part is trusted from its answer, within the margin", kind: "red",
		old: "		r.promote(op.room(w), trace.Granted, tk, w, sent, op.Terms.TTL)\n", new: "		r.promote(op.room(w), trace.Granted, tk, w, core.Now(), op.Terms.TTL)\n",
	},
	{
		strays: true, name: "the renewal of a part is for twice as long", kind: "red", script: "renew.lua",
		old: "  local lock, lease = KEYS[i], ARGV[2 * i]\n", new: "  local lock, lease = KEYS[i], 2 * ARGV[2 * i]\n",
	},
	{
		strays: true, name: "a part stands in line", kind: "red", script: "acquire.lua",
		old: "    if line ~= '0' and (stand(waiting, place, ttl) == 1 or line == '2') then\n", new: "    if stand(waiting, place, ttl) == 1 or line == '2' then\n",
	},
	{
		strays: true, name: "the token is not written back", kind: "red",
		old: "		if part.Core().Token() == token {\n", new: "		if part.Core().Token() <= token {\n",
	},
	{
		strays: true, name: "the token of any part is taken", kind: "red",
		old: "		token = max(token, part.Core().Token())\n", new: "		token = part.Core().Token()\n",
	},
	{
		strays: true, name: "a round leaves out a server", kind: "red",
		old: "			if slices.Contains(open, m) {\n", new: "			if slices.Contains(open, m) && i != 2 {\n",
	},
	{
		strays: true, name: "a lost round gives back its parts a moment later", kind: "red",
		old: "	undo(e.ctx, r.Parts)\n", new: "	time.AfterFunc(time.Millisecond, func() { undo(e.ctx, r.Parts) })\n",
	},
	{
		strays: true, name: "a late part joins before its server knows the token", kind: "red",
		old: "	if part.Core().Token() < co.whole.Core().Token() {\n", new: "	if part.Core().Token() > co.whole.Core().Token() {\n",
	},
	{
		strays: true, name: "a MultiLock gets one member after the other", kind: "multi",
		old: "		if mutexes := neighbours(rest); len(mutexes) > 1 {\n", new: "		if mutexes := neighbours(rest); len(mutexes) > 9 {\n",
	},
	{
		strays: true, name: "a MultiLock gives back all before it waits", kind: "multi",
		old: "			add(got...)\n", new: "			if err == nil {\n				add(got...)\n			} else {\n				undo(ctx, got)\n			}\n",
	},
	{
		strays: true, name: "a MultiLock gives back the members behind the refused one a moment later", kind: "multi",
		old: "	undo(ctx, behind)\n", new: "	time.AfterFunc(10*time.Millisecond, func() { undo(context.Background(), behind) })\n",
	},
	{
		strays: true, name: "a MultiLock that fails gives back its members a moment later", kind: "multi",
		old: "		undo(ctx, parts)\n", new: "		time.AfterFunc(10*time.Millisecond, func() { undo(context.Background(), parts) })\n",
	},
}
