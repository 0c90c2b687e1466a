-- Sets how many permits a semaphore has in all, taken or not. If more are taken, none is available
-- until enough are released.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the taken permits, scored with the time when they expire
-- ARGV[1]  permits in all
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
--
-- Reply: number of available permits, less than 0 if too many are taken
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: the second run sets the same.
local before = count(KEYS[1]) -- or fail, before anything is changed
reclaim(KEYS[1], KEYS[3], KEYS[2], ARGV[2], clock(), true)
-- Some are taken if the semaphore alone was deleted or evicted. If they are to end with it, it gets its time to live again.
local ends = not before and redis.call('pttl', KEYS[3]) or -1
local free = tonumber(ARGV[1]) - redis.call('zcard', KEYS[3])
local now = count(KEYS[1])
if now ~= free then
  -- by the difference, so that the time to live stays as it is
  redis.call('incrby', KEYS[1], digits(free - (now or 0)))
  announce(ARGV[2], KEYS[2], free)
end
if ends > 0 then
  redis.call('pexpire', KEYS[1], ends)
end
return free
