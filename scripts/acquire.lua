-- Takes locks, each independently of the others, or says for how long one is taken and stands in line
-- for it.
--
-- For each lock, one after the other:
-- KEYS[lock]     the lock
-- KEYS[waiting]  the list of processes that wait for it
-- KEYS[counter]  the counter of its fencing tokens
-- ARGV[lease]    lease in milliseconds
-- ARGV[place]    place in line, which names the owner
-- ARGV[line]     0 not to stand in line, 1 to stand in it, 2 likewise, and it may be there already
-- ARGV[tokens]   how many fencing tokens are wanted now
-- ARGV[keep]     for how many milliseconds their counter is kept, or 0 for ever
--
-- Reply: four values for each lock:
--   -2, token, 0, 0      taken: the owner has the lock for the whole lease from now, or longer;
--                        token is the first of its fencing tokens, 0 if none were wanted
--   n, foreign, s, µs    somebody else has it for n more milliseconds, or for ever if n is
--                        -1; foreign is 1 if that is no process of this library; s and µs
--                        are the time of the server
--   error, 0, 0, 0       WRONGTYPE when a key is something other than a hash, or a list, and
--                        another error when the counter is no counter; nothing is changed
--
-- Twice: an owner that has the lock already has it for the whole lease from now, and not for less
-- than it had, since that is what it trusts in; with a hold count of 1, and stands in line once,
-- however often it asks. It gets other tokens, larger ones; those of the first run are nobody's. Holds
-- within a process are counted by the process.
--
-- A free lock is given to whoever asks, past those in line: it is only free when nobody in line
-- listens, when it expired, or when it was left to Redisson's waiters to race for.

local function acquire(lock, waiting, counter, lease, place, line, tokens, keep)
  local owner = owner_of(place)
  -- PTTL answers -2 for a missing key, so the free case costs no EXISTS.
  local ttl = redis.call('pttl', lock)
  if ttl ~= -2 and redis.call('hexists', lock, owner) == 0 then
    local holder = redis.call('hkeys', lock)[1]
    if line ~= '0' and (stand(waiting, place, ttl) == 1 or line == '2') then
      tell('wanted', holder)
    end
    local foreign = 1
    if string.sub(holder, 15, 15) == '8' then
      foreign = 0
    end
    local now = redis.call('time')
    return ttl, foreign, tonumber(now[1]), tonumber(now[2])
  end
  local token = 0
  if tokens ~= '0' then
    local bad
    token, bad = draw(counter, tonumber(tokens), keep)
    if bad then
      return bad
    end
  end
  redis.call('hset', lock, owner, 1)
  if ttl < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  if line == '2' then
    redis.call('lrem', waiting, 1, place)
  end
  return -2, token
end

return each(acquire, 3, 0, 5)
