-- Creates a semaphore, of either kind, unless it exists.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- KEYS[4]  of permits that expire: the taken ones, which are left if the semaphore alone was deleted or evicted
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  permits in all, taken or not
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
-- ARGV[6]  time to live in milliseconds; 0 for ever, or that of the taken permits if they have one
--
-- Reply: 1   created
--        0   it exists, or something else does
--        -9  the client gave up the request
--
-- Twice: the second run finds the result of the first.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local free, ttl = tonumber(ARGV[4]), tonumber(ARGV[6])
if KEYS[4] then
  free = free - redis.call('zcard', KEYS[4])
  if ttl == 0 and redis.call('zcount', KEYS[4], '(' .. digits(clock()), '+inf') > 0 then -- those whose time is over are not taken
    ttl = lasts(KEYS[4])
    ttl = ttl < 0 and 0 or math.max(ttl, 1)
  end
end
local set = {'set', KEYS[1], digits(free), 'NX'}
if ttl > 0 then
  set = {'set', KEYS[1], digits(free), 'NX', 'PX', digits(ttl)}
end
local created = redis.call(unpack(set)) and 1 or 0
local bad = noted(function()
  if created == 1 then
    redis.call('set', KEYS[1], digits(free), 'PX', 1) -- which is permitted, while DEL may not be
  end
end, KEYS[3], ARGV[1], ARGV[2], ARGV[3], created)
if bad then
  return bad
end
if created == 1 then
  announce(ARGV[5], KEYS[2], free)
  if KEYS[4] then
    pcall(reclaim, KEYS[1], KEYS[4], KEYS[2], ARGV[5], clock()) -- pcall, because it is created although expired permits cannot be made available
    pcall(keep, KEYS[1], KEYS[4])
  end
end
return created
