-- Deletes a latch and announces that to its waiters.
--
-- KEYS[1]  the latch
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- KEYS[4]  the mark of a deleted latch
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result and the mark
-- ARGV[4]  message: 1, Redisson's for a latch that is closed now
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
--
-- Reply: 1   deleted
--        0   there was none
--        -9  the client gave up the request
--
-- Twice: the second run finds the result of the first.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
redis.call('pexpire', KEYS[3], ARGV[3]) -- or fail, before anything is changed: see note
local deleted = redis.call('del', KEYS[1])
if deleted == 1 then
  redis.call('set', KEYS[4], '1', 'PX', ARGV[3])
  say(ARGV[5], KEYS[2], ARGV[4])
end
note(KEYS[3], ARGV[1], ARGV[2], ARGV[3], deleted, true)
return deleted
