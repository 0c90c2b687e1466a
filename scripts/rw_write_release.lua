-- Releases the hold of a writer. Its holds for reading stay. A writer without a hold leaves the queue.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel of the lock
-- KEYS[3]  the queue of readers
-- KEYS[4]  the queue of writers
-- KEYS[5]  the turn
-- ARGV[1]  the writer, as its field is named
-- ARGV[2]  message: 01, which Redisson reads as 1, its message after a writer; 00 follows if Redisson's waiters listen
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  the prefix of the keys of holds
--
-- Reply: -1  the lock was not the writer's: free, others', or not a lock at all
--         0  it is free for readers now
--         1  it is free now
--
-- Redisson publishes nothing when readers keep the lock, and other readers wait until it expires. This script tells
-- them.
--
-- Twice: a writer is used for one grant only, so the second run finds a lock that is not the writer's and changes
-- nothing. HDEL is among the commands that Redis permits when it is out of memory, and after it Redis permits the
-- others of the script too.

local held = has(KEYS[1], ARGV[1])
if held ~= 1 then
  if held == 0 then
    leave(KEYS[1], KEYS[4], KEYS[3], KEYS[4], KEYS[5], ARGV[1])
    return -1
  end
  return held
end
redis.call('hdel', KEYS[1], ARGV[1])
local left = longest(KEYS[1], ARGV[4])
if left > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('pexpire', KEYS[1], left)
  pcall(call_readers, KEYS[3], KEYS[5], '')
else
  redis.call('del', KEYS[1])
  freed(ARGV[3], KEYS[2], KEYS[3], KEYS[4], KEYS[5], 'write')
end
say(ARGV[3], KEYS[2], ARGV[2])
-- Redisson wakes all its waiters at a 1, and does not remember it: a thread that has just been refused and does not
-- wait yet would miss it. It remembers a 0.
if redissons(ARGV[3], KEYS[2], KEYS[4]) then
  say(ARGV[3], KEYS[2], '00')
end
return left > 0 and 0 or 1
