-- Gives a lock that was just deleted to whoever is next. It stands in front of the scripts that
-- need it and is no step of its own.
--
-- Processes of this library that wait stand in a list beside the lock, each under the owner that
-- the lock is to get. Redisson's waiters stand nowhere: they listen on the lock's channel and race.
--
-- What a process is told on its channel "lockgen_process:<uuid>", where <n> is the number in its owner:
--   granted <n> <µs> <others>  the owner has the lock since that time of the server, for the claim
--                       lease; others is 1 if somebody else stands in line, else 0
--   look <n>            the lock may be free: ask
--   soon <n> <ms>       the one before you was granted it; ask when the claim lease is over, in case
--                       nobody is there
--   wanted <n>          somebody waits for what this owner holds
--   taken <n>           the lock was taken from this owner by force

-- tell sends a process what is said of its owner, and returns how many heard it. Owners of other
-- clients are told nothing: they have no such channel. A server that does not permit it tells nobody.
local function tell(what, owner, more)
  local uuid, n = string.match(owner, '^([^:]+):(%d+)$')
  if not uuid or string.sub(uuid, 15, 15) ~= '8' then
    return 0
  end
  local message = what .. ' ' .. n
  if more then
    message = message .. ' ' .. more
  end
  local heard = redis.pcall('publish', 'lockgen_process:' .. uuid, message)
  if type(heard) ~= 'number' then
    return 0
  end
  return heard
end

-- tell_soon tells the first in line from place number i on who hears it to ask in ms milliseconds.
local function tell_soon(waiting, i, ms)
  local owner = redis.call('lindex', waiting, i)
  while owner and tell('soon', owner, ms) == 0 do
    i = i + 1
    owner = redis.call('lindex', waiting, i)
  end
  return owner
end

-- tell_look tells the first in line who hears it to ask now, and the next one to ask in ms milliseconds,
-- in case nobody is there. Those who do not hear it leave the line.
local function tell_look(waiting, ms)
  local owner = redis.call('lindex', waiting, 0)
  while owner and tell('look', owner) == 0 do
    redis.call('lpop', waiting)
    owner = redis.call('lindex', waiting, 0)
  end
  if owner then
    tell_soon(waiting, 1, ms)
  end
end

-- stand puts owner at the end of the line, unless it is there, and returns the length of the line
-- if it was not. The line outlives the lease of ttl milliseconds that those in it wait for by a
-- minute: they ask again when it ends, and a line of the dead goes by itself.
local function stand(waiting, owner, ttl)
  local length = 0
  if not redis.call('lpos', waiting, owner) then
    length = redis.call('rpush', waiting, owner)
  end
  local keep = math.max(ttl, 0) + 60000
  if redis.call('pttl', waiting) < keep then
    redis.call('pexpire', waiting, keep)
  end
  return length
end

-- next_owner gives lock to the first in waiting whose process listens and returns it, or nil when
-- there is none. It stops at last, without telling it: that one is asking right now.
local function next_owner(lock, waiting, claim, last)
  while true do
    local owner = redis.call('lpop', waiting)
    if not owner then
      return nil
    end
    local now = redis.call('time') -- before the claim lease begins
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, claim)
    if owner == last then
      return owner
    end
    local others = redis.call('llen', waiting) > 0 and ' 1' or ' 0'
    if tell('granted', owner, now[1] .. string.format('%06d', now[2]) .. others) > 0 then
      tell_soon(waiting, 0, claim)
      return owner
    end
    redis.call('del', lock)
  end
end
