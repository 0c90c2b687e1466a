-- Takes the lock from whoever has it, and gives it to the first in line or to whoever asks.
--
-- KEYS[1]  the lock
-- KEYS[2]  the list of processes that wait for it
-- KEYS[3]  its channel
-- KEYS[4]  the counter of its fencing tokens
-- ARGV[1]  message: 0, the unlock message of Redisson
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  claim lease in milliseconds: what the next owner gets until it renews
--
-- Reply: 1  somebody had it
--        0  nobody had it
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: the second run finds a free lock, or takes it from the next owner too, as two
-- calls would. It is sent once and not again by itself.
if redis.call('hlen', KEYS[1]) == 0 then
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
return 1
