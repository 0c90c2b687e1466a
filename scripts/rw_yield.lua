-- Keeps out new readers while Redisson's waiters, should there be any, wait for those who read: they can only want to
-- write.
--
-- KEYS[1]  the lock
-- KEYS[2]  the mark that a writer waits
-- KEYS[3]  the channel of the lock
-- ARGV[1]  for how many milliseconds to leave the mark
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
--
-- Reply: 1  somebody waits
--        0  nobody does, or nobody reads
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: it sets the same mark again.

if redis.call('hget', KEYS[1], 'mode') ~= 'read' or not redissons(ARGV[2], KEYS[3], KEYS[2]) then
  return 0
end
leave(KEYS[2], tonumber(ARGV[1]))
for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
  tell('wanted', holder)
end
return 1
