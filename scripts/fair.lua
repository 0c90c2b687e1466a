-- What the scripts of the fair lock share. It stands behind handover.lua and in front of them, and is no
-- step of its own.
--
-- The lock is Redisson's: the hash of every lock; a list of all who wait, Java threads too, each by the owner
-- "<uuid>:<n>" that the lock is to get, the head next; and a sorted set that says for each of them when its place
-- may be taken, by the clocks of the clients, in milliseconds since 1970. List and set are changed together. Who is
-- next when the lock becomes free is told on a channel of its own, "<channel>:<uuid>:<n>".
--
-- One more key is this library's, and Redisson knows nothing of it: a hash of notes, "<uuid>:<n>" to "<wait> <lease>
-- <tokens> <keep>", by which those who wait can be given the lock at once, as if they had asked the moment that it
-- became free: for how many milliseconds they were to wait, and the lease, and how many fencing tokens from a counter
-- that is kept for so long. A process that does not hear of it gets nothing, and has the time of its note's lease to
-- come for it, since it may have died; so have the others of it that wait.
--
-- The hash has one more field, last: who was given the lock so and has neither asked for it nor given it back. If it is free
-- all the same, the lease of that one has run out: its process hears, as far as this server knows, and does nothing. Then none
-- of that process keeps its place, or each of them would cost the others a lease. There is no such field while nobody waits.
--
-- Those right behind the head that are of its process, and wait for the same, are given the lock with it: it goes from
-- one to the next in their order, without a word to this server, where they stay in the queue until the last of them
-- gives the lock back, in the name of the first.

kind = 'fair'

-- As many as that have a lock in a row.
local most = 64

-- forget drops who was given the lock last if nobody waits any more.
local function forget(queue, notes)
  if redis.call('exists', queue) == 0 then
    redis.call('hdel', notes, 'last')
  end
end

-- evict takes those off the head of the queue whose time is over, and returns the head that is left, and its time.
local function evict(queue, times, notes, now)
  while true do
    local head = redis.call('lindex', queue, 0)
    local time = head and tonumber(redis.call('zscore', times, head) or nil)
    if not time or time > now then
      return head, time
    end
    redis.call('lpop', queue)
    redis.call('zrem', times, head)
    redis.call('hdel', notes, head)
    forget(queue, notes)
    tell('look', head) -- if it lives it stands at the end now
  end
end

-- forward brings the times of all who wait forward by ms milliseconds, for which the places were to last that are gone.
local function forward(times, ms)
  local all = redis.call('zrange', times, 0, -1, 'withscores')
  local later = {}
  for i = 1, #all, 2 do
    later[#later + 1] = string.format('%.0f', all[i + 1] - ms)
    later[#later + 1] = all[i]
    if #later == 1000 or i + 1 == #all then -- as many as one call takes for certain
      redis.call('zadd', times, unpack(later))
      later = {}
    end
  end
end

-- admit takes the head out of the queue, if there is one, because it has the lock now, and brings the times of all others
-- forward by what its place was to last.
local function admit(queue, times, notes, owner, wait)
  redis.call('lpop', queue)
  redis.call('zrem', times, owner)
  redis.call('hdel', notes, owner)
  forget(queue, notes)
  forward(times, wait)
end

-- quit takes owners out of the queue, wherever they stand, and brings the times of those behind each of them forward by what
-- its place was to last: waits names that. It goes through the queue once, however many they are.
local function quit(queue, times, notes, owners, waits)
  local gone, left = 0, #owners
  while left > 0 do
    local head = redis.call('lindex', queue, 0)
    if not (head and waits[head]) then
      break
    end
    redis.call('lpop', queue)
    gone, left = gone + waits[head], left - 1
  end
  redis.call('zrem', times, unpack(owners))
  redis.call('hdel', notes, unpack(owners))
  if left == 0 then
    if gone > 0 then
      forward(times, gone)
    end
    forget(queue, notes)
    return
  end
  for _, owner in ipairs(redis.call('lrange', queue, 0, -1)) do
    if waits[owner] then
      redis.call('lrem', queue, 1, owner)
      gone = gone + waits[owner]
    elseif gone > 0 then
      redis.call('zadd', times, 'xx', 'incr', -gone, owner)
    end
  end
  forget(queue, notes)
end

-- expel takes those out of the queue, of a free lock, whose process was given it last and let it run out; unless it is that
-- process that asks. One of them is told so, in case it lives: they stand at the end then.
local function expel(queue, times, notes, asker)
  local last = redis.call('hget', notes, 'last')
  if not last then
    return
  end
  redis.call('hdel', notes, 'last')
  local process = string.sub(last, 1, 36)
  if process == asker then
    return
  end
  local owners, waits = {}, {}
  for _, owner in ipairs(redis.call('lrange', queue, 0, 4095)) do
    if string.sub(owner, 1, 36) == process then
      owners[#owners + 1] = owner
      waits[owner] = tonumber(string.match(redis.call('hget', notes, owner) or '', '^%d+')) or 0
    end
  end
  if #owners > 0 then
    quit(queue, times, notes, owners, waits)
    tell('look', owners[1])
  end
end

-- followers returns the numbers of those right behind the head, whose note is the one given, that have the lock after it.
local function followers(queue, notes, head, note)
  local process, numbers = string.sub(head, 1, 37), {}
  local function follows(owner) return owner and string.sub(owner, 1, 37) == process end
  if follows(redis.call('lindex', queue, 1)) then
    for i, owner in ipairs(redis.call('lrange', queue, 1, most - 1)) do
      if not follows(owner) or redis.call('hget', notes, owner) ~= note then
        break
      end
      numbers[i] = string.sub(owner, 38)
    end
  end
  return numbers
end

-- warn tells the first in the queue from place number i on who hears it, and is not of the process of head, to ask in ms
-- milliseconds, in case that process is not there to go on. It reports whether somebody hears. It looks at some and not at
-- all: many Java threads may wait.
local function warn(head, queue, i, ms)
  local process = string.sub(head, 1, 36)
  for place = i, i + 15 do
    local owner = redis.call('lindex', queue, place)
    if not owner then
      return false
    elseif string.sub(owner, 1, 36) ~= process and tell('soon', owner, string.format('%.0f', ms)) > 0 then
      return true
    end
  end
  return false
end

-- pass deals with a lock that is free: the head of the queue has it if its process listens. Otherwise the head is told,
-- as Redisson tells it. It returns 1 if the head has the lock, 2 if the head does not listen, and nobody behind it who could
-- ask when its time is over, else 0. Tokens that cannot be drawn are no reason to keep the lock from anybody: who needs one
-- asks for it, and hears of what is wrong.
local function pass(lock, queue, times, notes, channel, counter, publish, now)
  local head, time = evict(queue, times, notes, now)
  if not head then
    return 0
  end
  local note = redis.call('hget', notes, head) or ''
  local wait, lease, tokens, keep = string.match(note, '^(%d+) (%d+) (%d+) (%d+)$')
  if wait then
    local after, token = followers(queue, notes, head, note), 0
    if tokens ~= '0' then
      local ok, first = pcall(draw, counter, tokens * (1 + #after), keep)
      token = ok and first or 0
    end
    local at = redis.call('time')
    redis.call('hset', lock, head, 1)
    redis.call('pexpire', lock, lease)
    local grant = string.format('%s%06d 0 %.0f', at[1], at[2], token)
    if tell('granted', head, table.concat({grant, unpack(after)}, ' ')) > 0 then
      admit(queue, times, notes, head, wait)
      if redis.call('exists', queue) == 1 then
        redis.call('hset', notes, 'last', head)
        if redis.call('pttl', notes) < lease + 60000 then
          redis.call('pexpire', notes, lease + 60000)
        end
      end
      warn(head, queue, #after, tonumber(lease))
      return 1
    end
    redis.call('del', lock)
    time = math.min(time or math.huge, now + lease)
    local process = string.sub(head, 1, 36)
    for _, owner in ipairs(redis.call('hkeys', notes)) do -- the others of that process do not listen either
      local its = string.sub(owner, 1, 36) == process and tonumber(redis.call('zscore', times, owner) or nil)
      if its and its > time then
        redis.call('zadd', times, string.format('%.0f', time), owner)
      end
    end
  end
  say(publish, channel .. ':' .. head, '0')
  if not wait or warn(head, queue, 1, math.max(time - now, 1)) then
    return 0
  end
  return 2
end
