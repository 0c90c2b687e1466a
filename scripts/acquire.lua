--
-- Acquires locks, each independently of the others. For a lock that another owner holds, it returns how
-- long that lasts, and can add the owner to the wait queue.
--
-- For each lock, one after the other:
-- KEYS[lock]     the lock
-- KEYS[waiting]  the wait queue: a list of processes
-- KEYS[counter]  the counter of its fencing tokens
-- ARGV[lease]    lease in milliseconds
-- ARGV[place]    place in the wait queue, which names the owner
-- ARGV[line]     0 not to queue, 1 to queue, 2 to queue if it is not in the queue already
-- ARGV[tokens]   number of fencing tokens to draw
-- ARGV[keep]     for how many milliseconds the counter is kept, or 0 for ever
--
-- Reply: four values for each lock:
--   -2, token, 0, 0      acquired: the owner holds the lock for the whole lease from now, or longer;
--                        token is the first of its fencing tokens, 0 if it asked for none
--   n, foreign, s, µs    another owner holds it for n more milliseconds, or for ever if n is
--                        -1; foreign is 1 if that is no process of this library; s and µs
--                        are the time of the server
--   error, 0, 0, 0       WRONGTYPE when a key is something other than a hash, or a list, and
--                        another error when the counter is no counter; nothing is changed
--
-- Twice: an owner that holds the lock already keeps it for the whole lease from now, and not for less
-- than before, since the client trusts in that. Its hold count is 1, and it is in the queue once,
-- however often it asks. It gets other, larger tokens; the tokens of the first run are not used. The process
-- counts the holds within it.
--
-- The first owner that asks gets a free lock, ahead of the wait queue: a lock is free only when no process in
-- the queue listens, when its lease expired, or when it was left to Redisson's waiters to race for.

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
  if ttl == -2 then
    hold(lock, owner, lease)
  else
    redis.call('hset', lock, owner, '1')
    if ttl < tonumber(lease) then
      redis.call('pexpire', lock, lease)
    end
  end
  if line == '2' then
    redis.call('lrem', waiting, '1', place)
  end
  return -2, token
end

return each(acquire, 3, 0, 5)
