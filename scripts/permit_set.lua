-- Sets how many permits a semaphore has in all, taken or not. If more are taken, none is available
-- until enough are released.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the taken permits, scored with the time when they expire
-- KEYS[4]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  permits in all
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
--
-- Reply: n   number of available permits, 0 if too many are taken
--        -9  the client gave up the request
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: the second run finds the result of the first, and undoes no later change.
local done = outcome(KEYS[4], ARGV[1])
if done then
  return done
end
count(KEYS[1]) -- or fail, before anything is changed
reclaim(KEYS[1], KEYS[3], KEYS[2], ARGV[5], clock(), true)
keep(KEYS[1], KEYS[3])
-- Some are taken if the semaphore alone was deleted or evicted.
local free = tonumber(ARGV[4]) - redis.call('zcard', KEYS[3])
local now = count(KEYS[1])
local reply = math.max(free, 0)
note(KEYS[4], ARGV[1], ARGV[2], ARGV[3], digits(reply))
if now ~= free then
  -- by the difference, so that the time to live stays as it is
  behind(KEYS[4], ARGV[1], ARGV[3], adding(KEYS[1], KEYS[3], now, free - (now or 0)))
  announce(ARGV[5], KEYS[2], free)
end
return reply
