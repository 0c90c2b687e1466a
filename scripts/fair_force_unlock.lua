-- Takes the lock from its holder, and grants it to the head of the queue.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue
-- KEYS[3]  the times of its waiters
-- KEYS[4]  their notes
-- KEYS[5]  the prefix of their channels
-- KEYS[6]  the counter of its fencing tokens
-- ARGV[1]  the time of the client in milliseconds since 1970
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3] and all after it  the only owner to take it from; none for any
--
-- Reply: 1  it had a holder
--        0  it was free, or its holder is not the named one
--        WRONGTYPE when the lock is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or another holder than the named one. If none is named it takes the lock from
-- the next owner too, as two calls would. The library does not repeat the request by itself.
if redis.call('hlen', KEYS[1]) == 0 or not held_by(KEYS[1], 3) then
  return 0
end
for _, owner in ipairs(redis.call('hkeys', KEYS[1])) do
  tell('taken', owner)
end
redis.call('del', KEYS[1])
redis.pcall('hdel', KEYS[4], 'last')
pcall(pass, KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[2], tonumber(ARGV[1]))
return 1
