-- Takes permits of a semaphore for those who wait in one process, in their order: for the first so
-- many of them whom it has enough for.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  again: 1 if the request was sent before, else 0
-- ARGV[5]  permits to create it with if it does not exist; 0 not to
-- ARGV[6]  publish command: publish, spublish or both: see say.lua
-- ARGV[i]  from 7 on: how many permits each of them wants. None of them says that nobody wants any
--          more: what was taken stays taken, and what was not taken yet never will be
--
-- Reply: n   the first n of them have theirs
--        -9  the client gave up the request
--        WRONGTYPE when the key is something other than a count; nothing is changed
--
-- Twice: the second run says what the first one took. A first run that took nothing changes
-- nothing; a second one that takes nothing is noted, so that the first may still come, late.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local free = count(KEYS[1])
if not free and ARGV[5] ~= '0' and #ARGV > 6 then
  redis.call('set', KEYS[1], ARGV[5])
  free = tonumber(ARGV[5])
  announce(ARGV[6], KEYS[2], free)
end
local granted, sum = 0, 0
for i = 7, #ARGV do
  local want = tonumber(ARGV[i])
  if not free or sum + want > free then
    break
  end
  granted, sum = granted + 1, sum + want
end
if sum > 0 then
  redis.call('incrby', KEYS[1], digits(-sum))
end
if granted > 0 or ARGV[4] == '1' then
  local bad = noted(function()
    if sum > 0 then
      redis.call('incrby', KEYS[1], digits(sum))
    end
  end, KEYS[3], ARGV[1], ARGV[2], ARGV[3], granted)
  if bad then
    return bad
  end
end
return granted
