--
-- Functions of the scripts of the fair lock. This file stands behind handover.lua and in front of them, and is no
-- step of its own.
--
-- The lock is Redisson's: the hash of every lock; a list, the queue, of all waiters, Java threads too, each as the owner
-- "<uuid>:<n>" that the lock is to get, the head next; and a sorted set with the time until which each waiter keeps its place,
-- by the clocks of the clients, in milliseconds since 1970. List and set change together. When the lock becomes free, a
-- message goes to the head on a channel of its own, "<channel>:<uuid>:<n>".
--
-- One more key is this library's, and Redisson does not use it: a hash of notes, "<uuid>:<n>" to "<wait> <lease>
-- <tokens> <keep>". With a note, the scripts can grant the lock to a waiter at once, as if it had asked the moment that the
-- lock became free. A note has how many milliseconds the place of the waiter lasts, the lease, how many fencing tokens it wants,
-- and for how many milliseconds their counter is kept. A process that misses the message of its grant gets nothing. It has the time
-- of its note's lease to ask for the lock, since it may have died; so have its other waiters.
--
-- The hash has one more field, last: the owner that was granted the lock in this way and has neither asked for it nor released it. If
-- the lock is free all the same, the lease of that owner has expired: its process listens, as far as this server knows, and does
-- nothing. Then all waiters of that process lose their places, since each of them would cost the others a lease. The field does not
-- exist while the queue is empty.
--
-- The waiters right behind the head that are of its process, and wait for the same lock, are granted the lock with it. It goes from
-- one to the next in their order, without a request to this server. They stay in the queue until the last of them
-- releases the lock, in the name of the first.

kind = 'fair'

-- the largest number of waiters that hold a lock one after the other
local most = 64

-- the shortest time in milliseconds until a valid place ends when others leave the queue: the time that a process
-- without a subscription has to ask, and the longest lease of a grant
local least = 2000

-- the time in milliseconds after which the next waiter asks when it is the turn of a Java thread: the thread may give up
-- just then, and the script by which it leaves the queue tells nobody
local hesitant = 1000

-- the time in milliseconds, after the lease of the holder, for which the head of the queue keeps its place if nothing says how long: the
-- default of Redisson, whose threads reckon with no less. A waiter of this library asks sooner, and then says so
local timeless = 300000

-- forget deletes the last grantee when the queue is empty.
local function forget(queue, notes)
  if redis.call('exists', queue) == 0 then
    redis.call('hdel', notes, 'last')
  end
end

-- evict removes the waiters at the head of the queue whose places have expired, and returns the head that is left, and
-- its time. A head without a time, since the times were deleted or evicted, gets one.
local function evict(queue, times, notes, now)
  while true do
    local head = redis.call('lindex', queue, '0')
    local time = head and tonumber(redis.call('zscore', times, head) or nil)
    if head and not time then
      time = now + math.max(redis.call('pttl', here), 0) + timeless
      redis.call('zadd', times, string.format('%.0f', time), head)
    end
    if not time or time > now then
      return head, time
    end
    redis.call('lpop', queue)
    redis.call('zrem', times, head)
    redis.call('hdel', notes, head)
    forget(queue, notes)
    tell('look', head) -- a live waiter now queues at the end
  end
end

-- earlier returns the time of a place, brought forward by ms milliseconds, the duration of places before it. It ends no
-- place at once: a waiter whose process did not hear that it was next has less time than the places before it.
local function earlier(time, ms, now)
  return math.max(time - ms, math.min(time, now + least))
end

-- forward brings the times of all waiters forward by ms milliseconds, the duration of the places that are gone.
local function forward(times, ms, now)
  local all = redis.call('zrange', times, '0', '-1', 'withscores')
  local later = {}
  for i = 1, #all, 2 do
    later[#later + 1] = string.format('%.0f', earlier(tonumber(all[i + 1]), ms, now))
    later[#later + 1] = all[i]
    if #later == 1000 or i + 1 == #all then -- as many as one call takes for certain
      redis.call('zadd', times, unpack(later))
      later = {}
    end
  end
end

-- admit removes the head from the queue, if there is one, because it holds the lock now, and brings the times of all
-- others forward by the duration of its place.
local function admit(queue, times, notes, owner, wait, now)
  redis.call('lpop', queue)
  redis.call('zrem', times, owner)
  redis.call('hdel', notes, owner)
  forget(queue, notes)
  forward(times, wait, now)
end

-- quit removes owners from the queue, at any position, and brings the times of the waiters behind each of them forward
-- by the duration of its place, as in waits. It goes through the queue once, for any number of owners.
local function quit(queue, times, notes, owners, waits, now)
  local gone, left = 0, #owners
  while left > 0 do
    local head = redis.call('lindex', queue, '0')
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
      forward(times, gone, now)
    end
    forget(queue, notes)
    return
  end
  for _, owner in ipairs(redis.call('lrange', queue, '0', '-1')) do
    if waits[owner] then
      redis.call('lrem', queue, '1', owner)
      gone = gone + waits[owner]
    elseif gone > 0 then
      local time = tonumber(redis.call('zscore', times, owner) or nil)
      if time then
        redis.call('zadd', times, string.format('%.0f', earlier(time, gone, now)), owner)
      end
    end
  end
  forget(queue, notes)
end

-- expel removes waiters from the queue of a free lock whose process was granted it last and let the lease expire,
-- unless that process asks. It sends one of them a message, in case the process lives: its waiters then queue at the
-- end.
local function expel(queue, times, notes, asker, now)
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
  for _, owner in ipairs(redis.call('lrange', queue, '0', '4095')) do
    if string.sub(owner, 1, 36) == process then
      owners[#owners + 1] = owner
      waits[owner] = tonumber(string.match(redis.call('hget', notes, owner) or '', '^%d+')) or 0
    end
  end
  if #owners > 0 then
    quit(queue, times, notes, owners, waits, now)
    tell('look', owners[1])
  end
end

-- trust forgets the last grantee if another owner has the lock and the process of the grantee asks all the same: it lives. While the grantee has
-- the lock, a request of its process does not show that the process hears of its grants.
local function trust(lock, notes, asker)
  local last = redis.call('hget', notes, 'last')
  if last and string.sub(last, 1, 36) == asker and redis.call('hexists', lock, last) == 0 then
    redis.call('hdel', notes, 'last')
  end
end

-- followers returns the numbers of the waiters right behind the head that have the given note: they hold the lock after
-- it.
local function followers(queue, notes, head, note)
  local process, numbers = string.sub(head, 1, 37), {}
  local function follows(owner) return owner and string.sub(owner, 1, 37) == process end
  if follows(redis.call('lindex', queue, '1')) then
    for i, owner in ipairs(redis.call('lrange', queue, 1, most - 1)) do
      if not follows(owner) or redis.call('hget', notes, owner) ~= note then
        break
      end
      numbers[i] = string.sub(owner, 38)
    end
  end
  return numbers
end

-- warn sends a message to the first waiter from place number i on that listens and is not of the process of head: ask
-- in ms milliseconds, in case that process is dead. It reports whether a waiter listens. It tries each process once, since a
-- process that does not listen may have many waiters, and looks at some thousand places.
local function warn(head, queue, i, ms)
  local tried, count = {[string.sub(head, 1, 36)] = true}, 1
  while count <= 4096 do
    local owners = redis.call('lrange', queue, i, i + count - 1)
    for _, owner in ipairs(owners) do
      local process = string.sub(owner, 1, 36)
      if not tried[process] and tell('soon', owner, string.format('%.0f', ms)) > 0 then
        return true
      end
      tried[process] = true
    end
    if #owners < count then
      break
    end
    i, count = i + count, count * 8
  end
  return false
end

-- remind sends that message again if the lease of the holder is over soon: the waiter that got it may be one that leaves.
local function remind(lock, queue)
  local left = redis.call('pttl', lock)
  if left >= 0 and left <= least then
    warn(redis.call('hkeys', lock)[1], queue, 0, left)
  end
end

-- pass handles a free lock. If the process of the head listens, the head gets the lock. Otherwise the head gets
-- Redisson's message, and the next waiter that listens asks later, in case the head does not come. pass returns 1 if the
-- head has the lock, 2 if the head is of a process of this library that does not listen and no waiter behind it can ask
-- when its time is over, else 0. If tokens cannot be drawn, the lock is granted all the same: an owner that needs a token
-- asks for it, and gets the error. Without the permission to grant the lock, pass tells the head to ask.
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
    local grant = micros(at) .. ' 0 ' .. (token == 0 and '0' or string.format('%.0f', token))
    if not pcall(hold, lock, head, lease) then
      if tell('look', head) > 0 then
        warn(head, queue, 1, tonumber(lease))
        return 0
      end
    elseif tell('granted', head, table.concat({grant, unpack(after)}, ' ')) > 0 then
      admit(queue, times, notes, head, wait, now)
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
    for _, owner in ipairs(redis.call('hkeys', notes)) do -- the other waiters of that process do not listen either
      local its = string.sub(owner, 1, 36) == process and tonumber(redis.call('zscore', times, owner) or nil)
      if its and its > time then
        redis.call('zadd', times, string.format('%.0f', time), owner)
      end
    end
  end
  say(publish, channel .. ':' .. head, '0')
  if warn(head, queue, 1, wait and math.max(time - now, 1) or hesitant) or not wait then
    return 0
  end
  return 2
end
