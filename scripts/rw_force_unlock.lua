-- Takes the lock from its readers, or from its writer.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel of the lock
-- KEYS[3]  the queue of readers
-- KEYS[4]  the queue of writers
-- KEYS[5]  the turn
-- ARGV[1]  read or write
-- ARGV[2]  message: 00 for read, 01 for write, which 00 follows; to Redisson they are 0 and 1
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  the prefix of the keys of holds
-- ARGV[5] and all after it  the writer, or all readers, to take it from; none for any
--
-- Reply: 1  it was taken, with the holds of the writer for reading
--        0  it had no such holder, or its holders are not the named ones
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or other holders than the named ones. If none are named it takes the lock from
-- the next holders too, as two calls would. The library does not repeat the request by itself.

if redis.call('hget', KEYS[1], 'mode') ~= ARGV[1] or not held_by(KEYS[1], 5) then
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
