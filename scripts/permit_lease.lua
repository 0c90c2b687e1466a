-- Returns how long a permit lasts, and can change that.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the taken permits, scored with the time when they expire
-- ARGV[1]  id of the permit, 16 bytes
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  its lease in milliseconds from now, shorter or longer; -1 for ever; empty to leave it
--
-- Reply: {n, ttl}  it lasts for n more milliseconds: for ever if n is -1. If n is -2 there is no such permit: it expired or was released.
--                  All permits that are taken end in ttl milliseconds, with the semaphore, never if that is -1. n is no more
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: the second run sets the same lease once more.
local never = 922337203685477 -- Redisson's
local now = clock()
count(KEYS[1]) -- or fail, before anything is changed
reclaim(KEYS[1], KEYS[3], KEYS[2], ARGV[2], now)
local ttl = keep(KEYS[1], KEYS[3])
local over = tonumber(redis.call('zscore', KEYS[3], ARGV[1]) or -1)
if over <= now then
  return {-2, ttl}
end
if ARGV[3] ~= '' then
  over = never
  if ARGV[3] ~= '-1' then
    over = now + tonumber(ARGV[3])
  end
  redis.call('zadd', KEYS[3], digits(over), ARGV[1])
end
local left = over - now
if over >= never then
  left = -1
end
if ttl >= 0 and (left < 0 or ttl < left) then
  left = ttl
end
return {left, ttl}
