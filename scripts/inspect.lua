-- Returns the holder of the lock and the number of its waiters. It changes nothing.
--
-- KEYS[1]  the lock
-- KEYS[2]  the wait queue: a list of processes
-- KEYS[3]  its channel
-- ARGV[1]  publish command: publish, spublish or both: see say.lua
--
-- Reply: {ttl, waiting, listening, field, value, ...}
--        ttl        milliseconds until the lease ends; -1 for ever; -2 it is free
--        waiting    processes of this library in the wait queue
--        listening  subscriptions to the channel: Redisson's waiters, and the first in the wait queue if
--                  Redisson holds the lock
--        field      the owner, and value its hold count; nothing when it is free
--        WRONGTYPE when a key is something other than a hash, or a list
--
-- Twice: it only reads.
local reply = {
  redis.call('pttl', KEYS[1]),
  redis.call('llen', KEYS[2]),
  listening(ARGV[1], KEYS[3]),
}
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'mode' then -- of Redisson's read-write lock
    reply[#reply + 1] = fields[i]
    reply[#reply + 1] = fields[i + 1]
  end
end
return reply
