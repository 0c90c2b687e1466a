-- Counts a latch down by one. At 0 the latch is gone, and all its waiters go on.
--
-- KEYS[1]  the latch
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  message: 0, Redisson's for a latch that is open now
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
--
-- Reply: n   the count; 0 if there was no latch
--        -9  the client gave up the request
--        WRONGTYPE when the key is something other than a count; nothing is changed
--
-- Twice: the second run finds the result of the first.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local left = count(KEYS[1])
note(KEYS[3], ARGV[1], ARGV[2], ARGV[3], digits(math.max((left or 1) - 1, 0)))
if not left then
  return 0
end
if left > 1 then
  return behind(KEYS[3], ARGV[1], ARGV[3], 'incrby', KEYS[1], -1)
end
behind(KEYS[3], ARGV[1], ARGV[3], 'del', KEYS[1])
say(ARGV[5], KEYS[2], ARGV[4])
return 0
