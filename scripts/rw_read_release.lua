-- Releases the hold of a reader. A reader without a hold leaves the queue.
--
-- KEYS[1]  the lock
-- KEYS[2]  the key of the reader's hold
-- KEYS[3]  the channel of the lock
-- KEYS[4]  the queue of readers
-- KEYS[5]  the queue of writers
-- KEYS[6]  the turn
-- ARGV[1]  the reader
-- ARGV[2]  message: 00, which Redisson reads as 0, its message after readers
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  the prefix of the keys of holds
--
-- Reply: -1  the lock was not the reader's: free, others', or not a lock at all
--         0  others hold it still
--         1  it is free now
--
-- Twice: a reader is used for one grant only, so the second run finds a lock that is not the reader's and changes
-- nothing. DEL, HDEL and PUBLISH are among the commands that Redis permits when it is out of memory.

local held = has(KEYS[1], ARGV[1])
if type(held) == 'table' then
  return held
end
redis.call('del', KEYS[2])
if held == 0 then
  leave(KEYS[1], KEYS[4], KEYS[4], KEYS[5], KEYS[6], ARGV[1])
  return -1
end
redis.call('hdel', KEYS[1], ARGV[1])
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  return 0 -- it was read under a write lock, and lives as long as that
end
local left = longest(KEYS[1], ARGV[4])
if left > 0 then
  redis.call('pexpire', KEYS[1], left)
  return 0
end
redis.call('del', KEYS[1]) -- with the fields of dead readers
freed(ARGV[3], KEYS[3], KEYS[4], KEYS[5], KEYS[6], 'read')
say(ARGV[3], KEYS[3], ARGV[2])
return 1
