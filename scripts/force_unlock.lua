-- Takes the lock from whoever has it and tells those who listen that it is free.
--
-- KEYS[1]  the lock
-- KEYS[2]  its channel
-- ARGV[1]  message: 0, the unlock message of Redisson
-- ARGV[2]  publish command: publish, or spublish in a cluster with sharded channels
--
-- Reply: 1  somebody had it; it is free now
--        0  nobody had it
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or takes it from the next owner too, as two
-- calls would. It is sent once and not again by itself.
if redis.call('hlen', KEYS[1]) == 0 then
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1
