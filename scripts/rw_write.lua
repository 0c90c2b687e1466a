-- Acquires the lock for writing, or returns how long to wait.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue of readers
-- KEYS[3]  the queue of writers
-- KEYS[4]  the turn
-- KEYS[5]  the counter of its fencing tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the writer, as its field is named
-- ARGV[3]  for how many milliseconds to keep a place in the queue, or 0 not to wait
-- ARGV[4]  + for a process that gets no messages, else empty
-- ARGV[5]  number of fencing tokens to draw
-- ARGV[6]  for how many milliseconds their counter is kept, or 0 for ever
--
-- Reply: {-2, token}  acquired: the writer holds the lock for the whole lease from now, or longer; token is the
--                     first of its fencing tokens, 0 if it asked for none
--        {n, 0}       not acquired: ask again in n milliseconds, or -1 if the time is unknown
--        WRONGTYPE when the key is something other than a hash, and another error when the counter
--        is no counter; nothing is changed
--
-- Twice: a writer that holds the lock already keeps it for the whole lease from now, and not for less than before, with
-- a count of 1. It gets other, larger tokens; the tokens of the first run are not used.

local mode = redis.call('hget', KEYS[1], 'mode')
local ttl = redis.call('pttl', KEYS[1])
if not (mode and redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
  if not mode and ttl ~= -2 then
    return {ttl, 0} -- a lock of another kind
  end
  local place = ARGV[3] == '0' and '' or ARGV[2] .. ARGV[4]
  local wait = refused('write', KEYS[1], mode, ttl, KEYS[2], KEYS[3], KEYS[4], ARGV[2], place, ARGV[3])
  if wait then
    return {wait, 0}
  end
end
local token = 0
if ARGV[5] ~= '0' then
  local bad
  token, bad = draw(KEYS[5], tonumber(ARGV[5]), ARGV[6])
  if bad then
    return bad
  end
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], '1')
if ttl == -2 then
  expire(KEYS[1], ARGV[1], 'del', KEYS[1])
elseif ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return {-2, token}
