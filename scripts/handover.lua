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
-- clients are told nothing: they have no such channel.
local function tell(what, owner, more)
  local uuid, n = string.match(owner, '^([^:]+):(%d+)$')
  if not uuid or string.sub(uuid, 15, 15) ~= '8' then
    return 0
  end
  local message = what .. ' ' .. n
  if more then
    message = message .. ' ' .. more
  end
  return redis.call('publish', 'lockgen_process:' .. uuid, message)
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
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, claim)
    if owner == last then
      return owner
    end
    local now = redis.call('time')
    local second = redis.call('lindex', waiting, 0)
    if tell('granted', owner, now[1] .. string.format('%06d', now[2]) .. (second and ' 1' or ' 0')) > 0 then
      if second then
        tell('soon', second, claim)
      end
      return owner
    end
    redis.call('del', lock)
  end
end
