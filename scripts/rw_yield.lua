-- Reports whether writers wait for the readers, for a process that gets no messages and whose readers come and go
-- without end. If Redisson's waiters listen, it keeps out new readers: these waiters can only want to write.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue of writers
-- KEYS[3]  the channel of the lock
-- KEYS[4]  the turn
-- ARGV[1]  for how many milliseconds to keep out new readers
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
--
-- Reply: 1  a writer waits
--        0  no writer waits, or the lock has no readers
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: it sets the same turn again.

if redis.call('hget', KEYS[1], 'mode') ~= 'read' then
  return 0
end
if redis.call('exists', KEYS[2]) == 1 then
  return 1
end
if not redissons(ARGV[2], KEYS[3], KEYS[2]) then
  return 0
end
local whose, last, _, left = turn_of(KEYS[4])
if whose == 'redisson' or left == 0 then
  assign(KEYS[4], 'redisson', last ~= '' and last or 'read', '', tonumber(ARGV[1]))
end
for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
  tell('wanted', holder)
end
return 1
