--
-- Releases locks, each independently of the others: to the first process in the wait queue, or for whichever asks first. An
-- owner that does not hold its lock leaves the queue.
--
-- ARGV[1]  message: 0, the unlock message of Redisson
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  hand-over lease in milliseconds: the lease of the next owner until it renews
--
-- For each lock, one after the other:
-- KEYS[lock]     the lock
-- KEYS[waiting]  the wait queue: a list of processes
-- KEYS[channel]  its channel
-- KEYS[counter]  the counter of its fencing tokens
-- ARGV[place]    place in the wait queue, which names the owner
-- ARGV[again]    the place, at the end of the queue, by which the same process wants the lock once
--                more; empty if it does not
-- ARGV[lease]    lease in milliseconds that again gets when no other process is in the queue
-- ARGV[start]    for how many milliseconds no process of this library asks for the lock, if it is the turn of Redisson's
--                waiters, should there be any; else 0
--
-- Reply: four values for each lock: what, s, µs, token; or the number 1, if pass.lua has handed over all of them, none of which has an
-- again
--   what  is -1  the lock was not the owner's: free, another owner's, or not a lock at all
--             0  it is free now
--             1  the first in the queue has it
--             2  again has it
--             an error, and nothing is changed
--   s, µs the time of the server, if there is an again
--   token the first of the fencing tokens of again, if it has the lock and asked for some; if the lock is free, how many
--         clients have subscribed to its channel, as Redisson's waiters do
--
-- Twice: an owner is used for one grant only, so the second run finds a lock that is not the
-- owner's and changes nothing. HDEL and PUBLISH are among the commands that Redis permits when it is
-- out of memory, and after the first of them it permits the others of the script too.

local message, publish, claim = ARGV[1], ARGV[2], ARGV[3]

-- For how many milliseconds no process of this library asks for a lock that is left to Redisson's waiters because no
-- other process waits. Both libraries get the message at the same time, but Redisson's way is longer: from the
-- connection to a thread to the next request. Without this start its threads hardly ever get a lock that this library
-- wants all the time.
local usual = '5'

-- keep grants a lock that no other process wants to the place by which its process wants it again.
local function keep(lock, counter, place, lease)
  local owner, tokens, ttl = string.match(place, '^(.-)%+(%d+),(%d+)$')
  local token = 0
  if tokens then
    local ok, first = pcall(draw, counter, tonumber(tokens), ttl)
    token = ok and first or 0
  end
  hold(lock, owner or place, lease)
  return token
end

-- pass handles a lock that was just freed, and with which pass.lua has done all that done says.
local function pass(lock, waiting, channel, counter, again, lease, start, now, done)
  if done.passed then
    tell_soon(waiting, 0, claim)
    return 1
  end
  if again ~= '' and not done.stands and redis.call('rpush', waiting, again) == 1 then
    expire(waiting, 60000, 'lrem', waiting, '1', again)
  end
  if start == '0' or redis.call('exists', waiting) == 0 or listening(publish, channel) == 0 then
    local place = next_owner(lock, waiting, counter, claim, again, now, done.first)
    if not place then -- the queue is empty
      if say(publish, channel, message) == 0 then
        return 0
      end
      local ok, heard = pcall(listening, publish, channel)
      return 0, ok and heard or 0
    elseif place ~= again then
      return 1
    elseif listening(publish, channel) == 0 then
      return 2, keep(lock, counter, again, lease)
    end
    stand(waiting, again, 0) -- alone in the queue, but Redisson's waiters want it too
    start = usual
  end
  -- Redisson reads 00 as the number 0. Listeners of this library know that it is not for them.
  say(publish, channel, message .. message)
  tell_look(waiting, claim, start)
  return 0, listening(publish, channel)
end

-- The number of locks so far.
local seen = 0

local function release(lock, waiting, channel, counter, place, again, lease, start)
  seen = seen + 1
  local done = left[seen]
  if not done then -- pass.lua has handed it over
    return 1
  end
  local now = again ~= '' and (now.err and redis.call('time') or now)
  local function reply(what, token)
    return what, now and tonumber(now[1]), now and tonumber(now[2]), token
  end
  if done.what then
    return reply(done.what)
  end
  -- pcall, because a key of another type is not the owner's lock. Any other error does not tell
  -- whose it is.
  local removed = done.freed and 1 or redis.pcall('hdel', lock, owner_of(place))
  if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
    return removed
  end
  if removed ~= 1 then
    local first = redis.pcall('lindex', waiting, '0')
    local stood = redis.pcall('lrem', waiting, '1', place) == 1
    -- The first in the queue listens for all others: one process has to. And an owner whose lock somebody deleted is
    -- the first to know that it is free.
    if stood and first == place or type(first) == 'string' and redis.call('exists', lock) == 0 then
      tell_look(waiting, claim)
    end
    return reply(-1)
  end
  -- From here on the lock is free. An error, because the key is no list or a permission is missing, must not prevent
  -- the message to the others.
  local ok, what, token = pcall(pass, lock, waiting, channel, counter, again, lease, start, now, done)
  if not ok then
    say(publish, channel, message)
    pcall(tell_look, waiting, claim)
    return reply(0)
  end
  return reply(what, token)
end

return each(release, 4, 3, 4)
