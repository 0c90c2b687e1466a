-- Takes the lock from whoever reads, or from who writes.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel of the lock
-- KEYS[3]  the line of those who wait to read
-- KEYS[4]  the line of those who wait to write
-- KEYS[5]  the turn
-- ARGV[1]  read or write
-- ARGV[2]  message: 00 for read, 01 for write, which 00 follows; to Redisson they are 0 and 1
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  what the keys of holds begin with
--
-- Reply: 1  it was taken, with what a writer had for reading
--        0  nobody had it in that way
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or takes it from the next holders too, as two calls would.
-- It is sent once and not again by itself.

if redis.call('hget', KEYS[1], 'mode') ~= ARGV[1] then
  return 0
end
holds(KEYS[1], ARGV[4], function(holder, key)
  tell('taken', holder)
  redis.call('del', key)
end)
redis.call('del', KEYS[1])
freed(ARGV[3], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1])
say(ARGV[3], KEYS[2], ARGV[2])
if ARGV[2] == '01' then
  say(ARGV[3], KEYS[2], '00') -- see rw_write_release.lua
end
return 1
