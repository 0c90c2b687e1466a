-- Acquires permits that expire, for the waiters of one process, in their order: for as many of the first ones as there
-- are enough permits for.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- KEYS[4]  the taken permits, scored with the time when they expire
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  again: 1 if the request was sent before, else 0
-- ARGV[5]  permits to create it with if it does not exist, taken ones included; 0 not to, but expired permits create it
-- ARGV[6]  publish command: publish, spublish or both: see say.lua
-- ARGV[i]  from 7 on, for each waiter: the ids of the permits it is to get, of 16 bytes each. No waiter
--          at all withdraws the request: permits that it took stay taken, and it will
--          take no others
-- ARGV[i + 1]  lease of these permits in milliseconds
--
-- Reply: {n, ms, ttl}  the first n waiters have theirs; the next permit expires in ms, or never if that is -1; the semaphore, and
--                      all permits with it, ends in ttl milliseconds, never if that is -1, and has ended if it is -2
--        -9 for n      the client gave up the request
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: the second run returns the result of the first one, and keeps it for as long again: from Redis 7.2 on, WAIT
-- waits for replicas only behind a run that writes something. A first run that takes nothing changes nothing but expired
-- permits. A second run that takes nothing stores its result, so that a late first run does nothing.
--
-- Redisson uses the time of its clients. This script uses the time of the server, so that the clients of this library
-- agree whatever their clocks say. Redisson reclaims as many expired permits as it needs, this script all.
local done = outcome(KEYS[3], ARGV[1])
if done then
  redis.call('pexpire', KEYS[3], ARGV[3])
  return {done, -1, redis.call('pttl', KEYS[1])}
end
local now = clock()
local free = count(KEYS[1])
if not free and ARGV[5] ~= '0' and #ARGV > 6 then
  -- Some are taken if the semaphore alone was deleted or evicted.
  free = tonumber(ARGV[5]) - redis.call('zcount', KEYS[4], '-inf', '+inf')
  redis.call(adding(KEYS[1], KEYS[4], nil, free))
  announce(ARGV[6], KEYS[2], free)
end
if redis.call('zcount', KEYS[4], '-inf', digits(now)) > 0 then
  reclaim(KEYS[1], KEYS[4], KEYS[2], ARGV[6], now, ARGV[5] == '0')
  free = count(KEYS[1])
end
-- Before anything is taken, since it may not be permitted.
local first = tonumber(redis.call('zrange', KEYS[4], '0', '0', 'withscores')[2])
keep(KEYS[1], KEYS[4])
local ttl = redis.call('pttl', KEYS[1])
local granted, sum = 0, 0
for i = 7, #ARGV, 2 do
  -- Permits that are there were taken by an earlier request, which the client gave up without knowing that.
  local want = 0
  each(ARGV[i], function(id)
    if not redis.call('zscore', KEYS[4], id) then
      want = want + 1
    end
  end)
  if not free or sum + want > free then
    break
  end
  granted, sum = granted + 1, sum + want
end
if sum > 0 then
  redis.call('incrby', KEYS[1], digits(-sum))
end
if granted > 0 or ARGV[4] == '1' then
  local bad = noted(function()
    if sum > 0 then
      redis.call('incrby', KEYS[1], digits(sum))
    end
  end, KEYS[3], ARGV[1], ARGV[2], ARGV[3], granted)
  if bad then
    return bad
  end
end
-- The commands that take the permits are those of note, and so are permitted.
for i = 7, 5 + 2 * granted, 2 do
  local over = now + tonumber(ARGV[i + 1])
  first = math.min(first or over, over)
  each(ARGV[i], function(id) redis.call('zadd', KEYS[4], digits(over), id) end)
end
if sum > 0 and ttl > 0 then
  redis.call('pexpire', KEYS[4], ttl)
end
if not first or first >= 922337203685477 then -- Redisson's never
  return {granted, -1, ttl}
end
return {granted, first - now, ttl}
