-- Takes the lock, or says for how long it is taken.
--
-- KEYS[1]  the lock
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner
--
-- Reply: -2  taken: the owner has the lock for the whole lease from now
--        -1  somebody else has it and it never expires
--        n   somebody else has it for n more milliseconds, n >= 0
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: an owner that has the lock already has it for the whole lease from now,
-- with a hold count of 1, however often it asks. Holds within a process are counted
-- by the process.

-- PTTL answers -2 for a missing key, so the free case costs no EXISTS.
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return ttl
end
redis.call('hset', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return -2
