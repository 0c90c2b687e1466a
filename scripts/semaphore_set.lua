-- Creates a semaphore, of either kind, unless it exists.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  permits
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
-- ARGV[6]  time to live in milliseconds, 0 for ever
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
local set = {'set', KEYS[1], ARGV[4], 'NX'}
if ARGV[6] ~= '0' then
  set = {'set', KEYS[1], ARGV[4], 'NX', 'PX', ARGV[6]}
end
local created = redis.call(unpack(set)) and 1 or 0
local bad = noted(function()
  if created == 1 then
    redis.call('set', KEYS[1], ARGV[4], 'PX', 1) -- which is permitted, while DEL may not be
  end
end, KEYS[3], ARGV[1], ARGV[2], ARGV[3], created)
if bad then
  return bad
end
if created == 1 then
  announce(ARGV[5], KEYS[2], tonumber(ARGV[4]))
end
return created
