-- Adds permits to a semaphore: it releases taken ones, or changes how many there are.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  its channel
-- KEYS[3]  the requests of the client
-- KEYS[4]  of permits that expire: the taken ones. A semaphore that is created ends when they end
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
-- ARGV[4]  how many, less than 0 to take away
-- ARGV[5]  publish command: publish, spublish or both: see say.lua
-- ARGV[6]  if the semaphore does not exist: 0 to create it, 1 to do nothing but announce that many, since a waiter may create it, 2
--          to create it and return 0
--
-- Reply: 1   done
--        0   there is no semaphore, or there was none
--        -9  the client gave up the request
--        WRONGTYPE when the key is something other than a count; nothing is changed
--
-- Twice: the second run finds the result of the first. A time to live stays what it is.
local done = outcome(KEYS[3], ARGV[1])
if done then
  return done
end
local known = count(KEYS[1])
if not known and ARGV[6] == '1' then
  note(KEYS[3], ARGV[1], ARGV[2], ARGV[3], 0)
  announce(ARGV[5], KEYS[2], tonumber(ARGV[4]))
  return 0
end
local reply = 1
if not known and ARGV[6] == '2' then
  reply = 0
end
local add = {adding(KEYS[1], KEYS[4], known, tonumber(ARGV[4]))}
note(KEYS[3], ARGV[1], ARGV[2], ARGV[3], reply)
behind(KEYS[3], ARGV[1], ARGV[3], unpack(add))
announce(ARGV[5], KEYS[2], (known or 0) + tonumber(ARGV[4]))
return reply
