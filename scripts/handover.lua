--
-- Grants a lock that was just deleted to the next waiter. This file stands in front of the scripts that
-- need it and is no step of its own.
--
-- Waiting processes of this library are in a list beside the lock, the wait queue, each with a place that names
-- the owner that the lock is to get: "<uuid>:<n>". With fencing tokens the place is "<uuid>:<n>+<tokens>,<keep>": the
-- number of tokens, and for how many milliseconds their counter is kept, 0 for ever.
-- Redisson's waiters are not in the list: they listen on the lock's channel and race.
--
-- The messages to a process on its channels, where <n> is the number in its owner:
--   granted <n> <µs> <others> <token> <m>... of <kind> <lock>
--                       the owner has the lock since that time of the server, for the
--                       hand-over lease; others is 1 if another process waits, else 0; token is the first
--                       of its fencing tokens, 0 if it gets none; each m is the number of another owner of
--                       the process that has the lock after it, in this order: see fair.lua. The kind is lock, fair
--                       or rw. A process that does not know the owner any more releases the lock at once: this
--                       server has lost writes
--   look <n>            the lock may be free: ask
--   soon <n> <ms>       the waiter before you was granted it; ask when the hand-over lease is over, in case
--                       that waiter is dead
--   wanted <n> of <kind> <lock>  a waiter wants the lock of this owner; a process that does not know the owner any
--                       more releases the lock at once
--   taken <n>           the lock was taken from this owner by force
--
-- The 20th character of the uuid selects the channels:
--   8  lockgen_process:<uuid>, where PUBLISH returns the number of listeners.
--   9  in a cluster with sharded channels: messages about a place in the wait queue go to the sharded channel
--      lockgen_process:<uuid>:{<tag>}, with the hash tag of the lock, and so in its slot; the others to
--      lockgen_process:<uuid>, which all servers forward, without the number of listeners.
--   a  in a cluster without: all messages go to lockgen_process:<uuid>. The process counts as listening; if it
--      does not, the hand-over lease ends.

-- The lock of this run, and its kind.
local here, kind = KEYS[1], 'lock'

-- owner_of returns the owner that a place names.
local function owner_of(place)
  local plus = string.find(place, '+', 1, true)
  return plus and string.sub(place, 1, plus - 1) or place
end

-- draw draws fencing tokens from the counter and returns the first: larger than all before, and no
-- less than the time in microseconds, so that tokens rise also when the counter was lost or has
-- expired. A counter that never expires stays so: it may be shared with Redisson's fenced locks,
-- which count from 1 when it is gone. draw returns nil and an error when the key is no counter.
local function draw(counter, tokens, keep)
  local stored = redis.call('get', counter)
  local last = tonumber(stored or '0')
  if not last or not (last < 2 ^ 53 - tokens) then -- nor is it NaN
    return nil, redis.error_reply('ERR the counter of fencing tokens is not an integer or out of range: ' .. counter)
  end
  local forever = tonumber(keep) == 0 or stored and redis.call('pttl', counter) == -1
  local now = redis.call('time')
  local first = math.max(last + 1, now[1] * 1000000 + now[2])
  if forever then
    redis.call('set', counter, string.format('%.0f', first + tokens - 1))
  else -- both at once, since without the permission for the second command the counter would never expire
    redis.call('set', counter, string.format('%.0f', first + tokens - 1), 'px', keep)
  end
  return first
end

-- expire sets the time to live of a key that this run has created. Without the permission for that it runs the given
-- command, which deletes the key, and fails: the key would never expire.
local function expire(key, ms, ...)
  if type(redis.pcall('pexpire', key, ms)) == 'table' then
    redis.pcall(...)
    redis.call('pexpire', key, ms)
  end
end

-- hold grants a free lock to an owner for ms milliseconds. If it fails, the lock is free.
local function hold(lock, owner, ms)
  redis.call('hset', lock, owner, '1')
  expire(lock, ms, 'hdel', lock, owner)
end

-- tell sends a message about an owner to its process, and returns the number of listeners. Owners
-- of other clients have no such channel, and get none. If the server does not permit the message,
-- there is no listener.
local function tell(what, place, more)
  local uuid, n = string.match(place, '^([^:]+):(%d+)')
  if not uuid or string.sub(uuid, 15, 15) ~= '8' then
    return 0
  end
  local message = what .. ' ' .. n
  if more then
    message = message .. ' ' .. more
  end
  if what == 'granted' or what == 'wanted' then
    message = message .. ' of ' .. kind .. ' ' .. here
  end
  local channel, ear, heard = 'lockgen_process:' .. uuid, string.sub(uuid, 20, 20), nil
  if ear == '9' and what ~= 'wanted' and what ~= 'taken' then
    channel = channel .. ':{' .. (string.match(here, '{([^}]+)}') or here) .. '}'
    -- Not every listener is the process: a replica forwards the channel to its own listeners. So the message is sent
    -- only if one is counted here.
    local counted = redis.pcall('pubsub', 'shardnumsub', channel)
    if counted.err or counted[2] == 0 then
      return 0
    end
    heard = redis.pcall('spublish', channel, message)
  else
    heard = redis.pcall('publish', channel, message)
  end
  if type(heard) ~= 'number' then
    return 0
  elseif ear == 'a' then
    return 1
  end
  return heard
end

-- tell_soon tells the first process in the queue that listens, from place number i on, to ask in ms
-- milliseconds.
local function tell_soon(waiting, i, ms)
  local place = redis.call('lindex', waiting, i)
  while place and tell('soon', place, ms) == 0 do
    i = i + 1
    place = redis.call('lindex', waiting, i)
  end
end

-- tell_look tells the first process in the queue that listens to ask, now or in start milliseconds, and the next one to
-- ask in ms milliseconds, in case the first is dead. Processes that do not listen leave the queue.
local function tell_look(waiting, ms, start)
  local what = start and 'soon' or 'look'
  local place = redis.call('lindex', waiting, '0')
  while place and tell(what, place, start) == 0 do
    redis.call('lpop', waiting)
    place = redis.call('lindex', waiting, '0')
  end
  if place then
    tell_soon(waiting, 1, ms)
  end
end

-- stand adds a place at the end of the queue, unless it is there, and returns the length of the
-- queue if it was not. The queue outlives the lease of ttl milliseconds that its waiters wait for
-- by a minute: they ask again when the lease ends, and a queue of dead processes expires.
local function stand(waiting, place, ttl)
  local length = 0
  if not redis.call('lpos', waiting, place) then
    length = redis.call('rpush', waiting, place)
  end
  local keep = math.max(ttl, 0) + 60000
  if length == 1 then
    expire(waiting, keep, 'lrem', waiting, '1', place)
  elseif redis.call('pttl', waiting) < keep then
    redis.call('pexpire', waiting, keep)
  end
  return length
end

-- micros returns a reply to TIME as the text of its microseconds.
local function micros(now)
  return now[1] .. string.sub('00000' .. now[2], -6)
end

-- next_owner grants lock to the first in waiting whose process listens, and returns its place, or nil when there is
-- none. It stops at the place last, without a grant: that process is asking right now, and learns from the reply when to ask
-- again. now is an earlier time of the server, and first the place that was taken from waiting already, if any. If tokens cannot
-- be drawn, the lock is granted all the same: an owner that needs a token asks for it, and gets the error. Without the permission
-- to grant the lock, next_owner tells the process to ask for it, and fails.
local function next_owner(lock, waiting, counter, claim, last, now, first)
  while true do
    local place = first or redis.call('lpop', waiting)
    first = nil
    if not place or place == last then
      return place
    end
    local owner, tokens, keep = string.match(place, '^(.-)%+(%d+),(%d+)$')
    local token = 0
    if tokens then
      local ok, first = pcall(draw, counter, tonumber(tokens), keep)
      token = ok and first or 0
    end
    now = now or redis.call('time')
    local held, err = pcall(hold, lock, owner or place, claim)
    if not held then
      tell('look', place)
      error(err, 0)
    end
    local second = redis.call('lindex', waiting, '0')
    -- The server writes to connections in the opposite order: the one that is in a hurry comes first.
    local soon = second and second ~= last and tell('soon', second, claim)
    if tell('granted', place, micros(now) .. (second and ' 1 ' or ' 0 ') .. (token == 0 and '0' or string.format('%.0f', token))) > 0 then
      if soon == 0 then
        tell_soon(waiting, 1, claim)
      end
      return place
    end
    redis.call('del', lock)
  end
end

-- each runs step for each of many locks, with their keys and args, and returns its replies, four
-- values for each lock. An error is the first of them: it concerns that lock alone.
local function each(step, keys, from, args)
  local replies = {}
  for i = 0, #KEYS / keys - 1 do
    local given = {}
    for j = 1, keys do
      given[j] = KEYS[i * keys + j]
    end
    here = given[1]
    for j = 1, args do
      given[keys + j] = ARGV[from + i * args + j]
    end
    local reply = {pcall(step, unpack(given))}
    if not reply[1] then
      local err = reply[2]
      reply = {true, redis.error_reply(type(err) == 'table' and err.err or err)}
    end
    for j = 1, 4 do
      replies[i * 4 + j] = reply[j + 1] or 0
    end
  end
  return replies
end
