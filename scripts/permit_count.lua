-- Counts the permits of a semaphore whose permits expire, after it has reclaimed the expired ones.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the taken permits, scored with the time when they expire
-- ARGV[1]  publish command: publish, spublish or both: see say.lua
-- ARGV[2]  number of permits in all if there is no semaphore; 0 if that is not known, and none is available
--
-- Reply: {available, taken}
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: the second run counts again.
count(KEYS[1]) -- or fail, before anything is changed
local now = clock()
reclaim(KEYS[1], KEYS[3], KEYS[2], ARGV[1], now)
keep(KEYS[1], KEYS[3])
local taken = redis.call('zcount', KEYS[3], '(' .. digits(now), '+inf')
return {count(KEYS[1]) or (ARGV[2] == '0' and 0 or tonumber(ARGV[2]) - taken), taken}
