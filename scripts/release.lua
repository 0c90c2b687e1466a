-- Gives the lock back and tells those who listen that it is free.
--
-- KEYS[1]  the lock
-- KEYS[2]  its channel
-- ARGV[1]  owner
-- ARGV[2]  message: 0, the unlock message of Redisson
-- ARGV[3]  publish command: publish, or spublish in a cluster with sharded channels
--
-- Reply: -1  the lock is not the owner's: free, somebody else's, or not a lock at all
--        n   it was and is free now; n listeners were told
--
-- Twice: an owner is used for one grant only, so the second run finds a lock that is
-- not the owner's and changes nothing. DEL and PUBLISH are among the commands that a
-- server without memory left still accepts.

-- pcall, because a key of another type is simply not the owner's lock.
if redis.pcall('hexists', KEYS[1], ARGV[1]) ~= 1 then
  return -1
end
redis.call('del', KEYS[1])
return redis.call(ARGV[3], KEYS[2], ARGV[2])
