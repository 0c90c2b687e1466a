-- Acquires permits of a semaphore for the waiters of one process, in their order: for as many of
-- the first ones as it has enough permits for.
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
-- ARGV[i]  from 7 on: how many permits each waiter wants. No waiter at all withdraws the request: permits
--          that it took stay taken, and it will take no others
--
-- Reply: n   the first n waiters have theirs
--        -9  the client gave up the request
--        WRONGTYPE when the key is something other than a count; nothing is changed
--
-- Twice: the second run returns the result of the first one, and keeps it for as long again: from Redis 7.2 on, WAIT
-- waits for replicas only behind a run that writes something. A first run that takes nothing changes
-- nothing. A second run that takes nothing stores its result, so that a late first run does
-- nothing.
local done = outcome(KEYS[3], ARGV[1])
if done then
  redis.call('pexpire', KEYS[3], ARGV[3])
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
