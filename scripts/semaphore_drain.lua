-- Takes all permits that a semaphore has.
--
-- KEYS[1]  the semaphore
-- KEYS[2]  the requests of the client
-- ARGV[1]  number of the request
-- ARGV[2]  number below which the client needs no results any more
-- ARGV[3]  milliseconds for which to keep the result
--
-- Reply: n   number of permits taken; 0 if there were none, or fewer, or there is no semaphore
--        -9  the client gave up the request
--        WRONGTYPE when the key is something other than a count; nothing is changed
--
-- Twice: the second run finds the result of the first. A time to live and a negative count stay as
-- they are; Redisson removes the one and raises the other to 0.
local done = outcome(KEYS[2], ARGV[1])
if done then
  return done
end
local taken = math.max(count(KEYS[1]) or 0, 0)
if taken > 0 then
  redis.call('incrby', KEYS[1], digits(-taken))
end
local bad = noted(function()
  if taken > 0 then
    redis.call('incrby', KEYS[1], digits(taken))
  end
end, KEYS[2], ARGV[1], ARGV[2], ARGV[3], digits(taken))
return bad or taken
