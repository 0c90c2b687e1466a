-- Starts a latch unless it is running.
--
-- KEYS[1]  the latch
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- KEYS[4]  the mark of a deleted latch
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  count, at least 1
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
-- ARGV[6]  message: 1, Redisson's for a latch that is closed now
--
-- Reply: 1   started
--        0   it is running, or the key is something else
--        -9  the client gave up the request
--
-- Twice: the second run finds the result of the first.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local started = 0
if redis.call('set', KEYS[1], ARGV[4], 'NX') then
  started = 1
end
local bad = noted(function()
  if started == 1 then
    redis.call('del', KEYS[1])
  end
end, KEYS[3], ARGV[1], ARGV[2], ARGV[3], started)
if bad then
  return bad
end
if started == 1 then
  redis.call('del', KEYS[4])
  say(ARGV[5], KEYS[2], ARGV[6])
end
return started
