-- Gives locks back, each independently of the others: to the first in line, or to whoever asks. An
-- owner that does not have its lock leaves the line.
--
-- ARGV[1]  message: 0, the unlock message of Redisson
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  claim lease in milliseconds: what the next owner gets until it renews
--
-- For each lock, one after the other:
-- KEYS[lock]     the lock
-- KEYS[waiting]  the list of processes that wait for it
-- KEYS[channel]  its channel
-- KEYS[counter]  the counter of its fencing tokens
-- ARGV[place]    place in line, which names the owner
-- ARGV[again]    the place, at the end of the line, by which the same process wants the lock once
--                more; empty if it does not
-- ARGV[lease]    lease in milliseconds that again gets when nobody else is in line
-- ARGV[start]    for how many milliseconds nobody of this library asks for the lock, if it is the turn of Redisson's waiters,
--                should there be any; else 0
--
-- Reply: four values for each lock: what, s, µs, token
--   what  is -1  the lock was not the owner's: free, somebody else's, or not a lock at all
--             0  it is free now
--             1  the first in line has it
--             2  again has it
--             an error, and nothing is changed
--   s, µs the time of the server, if there is an again
--   token the first of the fencing tokens of again, if it has the lock and wanted some
--
-- Twice: an owner is used for one grant only, so the second run finds a lock that is not the
-- owner's and changes nothing. HDEL and PUBLISH are among the commands that a server without
-- memory left still accepts, and after the first of them it accepts the others of the script too.

local message, publish, claim = ARGV[1], ARGV[2], ARGV[3]

-- For how many milliseconds nobody of this library asks for a lock that is left to Redisson's waiters since nobody else wants
-- it. They are told at the same time as ours, but theirs is the longer way: from the connection to a thread to the next
-- request, so that without a start they hardly ever get a lock that is wanted here all the time.
local usual = '5'

-- keep gives a lock that nobody else wants to the place by which its process wants it again.
local function keep(lock, counter, place, lease)
  local owner, tokens, ttl = string.match(place, '^(.-)%+(%d+),(%d+)$')
  local token = 0
  if tokens then
    local ok, first = pcall(draw, counter, tonumber(tokens), ttl)
    token = ok and first or 0
  end
  redis.call('hset', lock, owner or place, 1)
  redis.call('pexpire', lock, lease)
  return token
end

-- pass deals with a lock that was just freed.
local function pass(lock, waiting, channel, counter, again, lease, start, now)
  if again ~= '' and redis.call('rpush', waiting, again) == 1 then
    redis.call('pexpire', waiting, 60000)
  end
  if start == '0' or redis.call('exists', waiting) == 0 or listening(publish, channel) == 0 then
    local place = next_owner(lock, waiting, counter, claim, again, now)
    if not place then -- nobody is in line
      say(publish, channel, message)
      return 0
    elseif place ~= again then
      return 1
    elseif listening(publish, channel) == 0 then
      return 2, keep(lock, counter, again, lease)
    end
    stand(waiting, again, 0) -- alone in line, but Redisson's waiters want it too
    start = usual
  end
  -- To Redisson 00 is the 0 that it is. Those of this library who listen, too, know that it is not for them.
  say(publish, channel, message .. message)
  tell_look(waiting, claim, start)
  return 0
end

local function release(lock, waiting, channel, counter, place, again, lease, start)
  local now = again ~= '' and redis.call('time')
  local function reply(what, token)
    return what, now and tonumber(now[1]), now and tonumber(now[2]), token
  end
  -- pcall, because a key of another type is simply not the owner's lock. Any other error says nothing
  -- about whose it is.
  local removed = redis.pcall('hdel', lock, owner_of(place))
  if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
    return removed
  end
  if removed ~= 1 then
    local first = redis.pcall('lindex', waiting, 0)
    local stood = redis.pcall('lrem', waiting, 1, place) == 1
    -- The first in line listens for more than the others do: somebody has to. And who lost a lock that somebody
    -- deleted is the first to know that it is free.
    if stood and first == place or type(first) == 'string' and redis.call('exists', lock) == 0 then
      tell_look(waiting, claim)
    end
    return reply(-1)
  end
  -- From here on the lock is free. What can fail, because the line is no list, must not keep the
  -- others from hearing of it.
  local ok, what, token = pcall(pass, lock, waiting, channel, counter, again, lease, start, now)
  if not ok then
    say(publish, channel, message)
    pcall(tell_look, waiting, claim)
    return reply(0)
  end
  return reply(what, token)
end

return each(release, 4, 3, 4)
