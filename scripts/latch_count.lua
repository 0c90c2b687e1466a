-- Says what is left of a latch.
--
-- KEYS[1]  the latch
-- KEYS[2]  what says that it was deleted
--
-- Reply: n   what is left
--        0   there is no latch: it was counted down, expired, or never was
--        -1  there is none, and it was deleted lately
--        WRONGTYPE when the key is something other than a count
--
-- Twice: it only reads, but for what says that an earlier latch of that name was deleted, which goes.
local left = count(KEYS[1])
if left then
  if redis.call('get', KEYS[2]) then
    redis.call('del', KEYS[2])
  end
  return left
end
if redis.call('get', KEYS[2]) then
  return -1
end
return 0
