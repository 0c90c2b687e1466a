-- Takes the lock for writing, or says for how long to wait.
--
-- KEYS[1]  the lock
-- KEYS[2]  the mark that a reader waits
-- KEYS[3]  the mark that a writer waits
-- KEYS[4]  the counter of its fencing tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the writer, as its field is named
-- ARGV[3]  for how many milliseconds to leave the mark, or 0 for one who does not wait
-- ARGV[4]  uuid of the client
-- ARGV[5]  how many fencing tokens are wanted
-- ARGV[6]  for how many milliseconds their counter is kept, or 0 for ever
--
-- Reply: {-2, token}  taken: the writer has the lock for the whole lease from now, or longer; token is the
--                     first of its fencing tokens, 0 if none were wanted
--        {n, 0}       not taken: ask again in n milliseconds, or -1 if nobody knows when
--        WRONGTYPE when the key is something other than a hash, and another error when the counter
--        is no counter; nothing is changed
--
-- Twice: a writer that has the lock already has it for the whole lease from now, and not for less
-- than it had, with a count of 1. It gets other tokens, larger ones; those of the first run are nobody's.

local mode = redis.call('hget', KEYS[1], 'mode')
local ttl = redis.call('pttl', KEYS[1])
if not (mode and redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
  if ttl ~= -2 then
    if mode and ARGV[3] ~= '0' then
      redis.pcall('set', KEYS[3], ARGV[4], 'px', ARGV[3])
      for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
        tell('wanted', holder)
      end
    end
    return {ttl, 0}
  end
  local turn = redis.call('pttl', KEYS[2])
  if turn > 0 then
    return {math.min(turn, 20), 0} -- soon: nobody tells when the reader has come
  end
end
local token = 0
if ARGV[5] ~= '0' then
  local bad
  token, bad = draw(KEYS[4], tonumber(ARGV[5]), ARGV[6])
  if bad then
    return bad
  end
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], 1)
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
redis.call('del', KEYS[3])
return {-2, token}
