-- Takes the lock from its holder, and grants it to the first in the wait queue, or leaves it free.
--
-- KEYS[1]  the lock
-- KEYS[2]  the wait queue: a list of processes
-- KEYS[3]  its channel
-- KEYS[4]  the counter of its fencing tokens
-- ARGV[1]  message: 0, the unlock message of Redisson
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  hand-over lease in milliseconds: the lease of the next owner until it renews
-- ARGV[4] and all after it  the only owner to take it from; none for any
--
-- Reply: 1  it had a holder
--        0  it was free, or its holder is not the named one
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or another holder than the named one. If none is named it takes the lock from
-- the next owner too, as two calls would. The library does not repeat the request by itself.
if redis.call('hlen', KEYS[1]) == 0 or not held_by(KEYS[1], 4) then
  return 0
end
for _, owner in ipairs(redis.call('hkeys', KEYS[1])) do
  tell('taken', owner)
end
redis.call('del', KEYS[1])
local ok, place = pcall(next_owner, KEYS[1], KEYS[2], KEYS[4], ARGV[3])
if not (ok and place) then
  say(ARGV[2], KEYS[3], ARGV[1])
end
if not ok then
  pcall(tell_look, KEYS[2], ARGV[3])
end
return 1
