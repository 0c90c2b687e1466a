-- Returns the count of a latch.
--
-- KEYS[1]  the latch
-- KEYS[2]  the mark of a deleted latch
--
-- Reply: n   the count
--        0   there is no latch: it was counted down, expired, or never was
--        -1  there is none, and it was deleted lately
--        WRONGTYPE when the key is something other than a count
--
-- Twice: it only reads, but it deletes the mark of an earlier latch of that name.
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
