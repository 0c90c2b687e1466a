-- Gives back what a writer has. Its readers keep the lock for reading. One that has nothing leaves the line.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel of the lock
-- KEYS[3]  the line of those who wait to read
-- KEYS[4]  the line of those who wait to write
-- KEYS[5]  the turn
-- ARGV[1]  the writer, as its field is named
-- ARGV[2]  message: 01, to Redisson the 1 that it says when a writer has gone; 00 follows if Redisson's waiters listen
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  what the keys of holds begin with
--
-- Reply: -1  the lock was not the writer's: free, others', or not a lock at all
--         0  it is free for readers now
--         1  it is free now
--
-- Redisson says nothing when readers keep the lock, and other readers wait until it expires. Here
-- they are told.
--
-- Twice: a writer is used for one grant only, so the second run finds a lock that is not the writer's and
-- changes nothing. HDEL is among the commands that a server without memory left still accepts, and
-- after it it accepts the others of the script too.

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
-- Redisson wakes all who wait at a 1, and forgets it: a thread that has just been refused and does not wait yet would not
-- hear of it. It remembers a 0.
if redissons(ARGV[3], KEYS[2], KEYS[4]) then
  say(ARGV[3], KEYS[2], '00')
end
return left > 0 and 0 or 1
