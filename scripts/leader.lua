-- Returns the record of the leader. It changes nothing.
--
-- KEYS[1]  the lock of the leader
-- KEYS[2]  the record of the leader
--
-- Reply: {ttl, record}
--        ttl     milliseconds until the lease ends; -1 for ever; -2 it is free
--        record  as elect.lua writes it: token, perhaps behind zeros, owner and value; empty without a leader, since the lock is free or its
--               owner has not announced yet that it leads
--        WRONGTYPE when the lock is something other than a hash, or the record than a string
--
-- Twice: it only reads.
local ttl = redis.call('pttl', KEYS[1])
local stored = redis.call('get', KEYS[2])
local owner = stored and string.match(stored, '^%d+ (%S+) ')
if not owner or redis.call('hexists', KEYS[1], owner) == 0 then
  return { ttl, '' }
end
return { ttl, stored }
