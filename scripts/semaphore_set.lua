-- Creates a semaphore, of either kind, unless it exists.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  permits
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
-- ARGV[6]  time to live in milliseconds, 0 for ever
--
-- Reply: 1   created
--        0   it exists, or something else does
--        -9  the client gave up the request
--
-- Twice: the second run finds the result of the first.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local created = 0
if redis.call('set', KEYS[1], ARGV[4], 'NX') then
  created = 1
  if ARGV[6] ~= '0' then
    redis.call('pexpire', KEYS[1], ARGV[6])
  end
  announce(ARGV[5], KEYS[2], tonumber(ARGV[4]))
end
note(KEYS[3], ARGV[1], ARGV[2], ARGV[3], created)
return created
