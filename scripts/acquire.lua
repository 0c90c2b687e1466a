-- Takes the lock, or says for how long it is taken and stands in line for it.
--
-- KEYS[1]  the lock
-- KEYS[2]  the list of processes that wait for it
-- KEYS[3]  the counter of its fencing tokens, if some are wanted
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  place in line, which names the owner
-- ARGV[3]  line: 0 not to stand in line, 1 to stand in it, 2 likewise, and it may be there already
-- ARGV[4]  how many fencing tokens are wanted now, if some are
-- ARGV[5]  for how many milliseconds their counter is kept, or 0 for ever
--
-- Reply: {-2, token}              taken: the owner has the lock for the whole lease from now, or longer;
--                                 token is the first of its fencing tokens, 0 if none were wanted
--        {n, foreign, s, µs}      somebody else has it for n more milliseconds, or for ever if n is
--                                 -1; foreign is 1 if that is no process of this library; s and µs
--                                 are the time of the server
--        WRONGTYPE when a key is something other than a hash, or a list, and another error when the
--        counter is no counter; nothing is changed
--
-- Twice: an owner that has the lock already has it for the whole lease from now, and not for less
-- than it had, since that is what it trusts in; with a hold count of 1, and stands in line once,
-- however often it asks. It gets other tokens, larger ones; those of the first run are nobody's. Holds
-- within a process are counted by the process.
--
-- A free lock is given to whoever asks, past those in line: it is only free when nobody in line
-- listens, when it expired, or when it was left to Redisson's waiters to race for.

local owner = owner_of(ARGV[2])
-- PTTL answers -2 for a missing key, so the free case costs no EXISTS.
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 and redis.call('hexists', KEYS[1], owner) == 0 then
  local holder = redis.call('hkeys', KEYS[1])[1]
  if ARGV[3] ~= '0' and stand(KEYS[2], ARGV[2], ttl) == 1 then
    tell('wanted', holder)
  end
  local foreign = 1
  if string.sub(holder, 15, 15) == '8' then
    foreign = 0
  end
  local now = redis.call('time')
  return {ttl, foreign, tonumber(now[1]), tonumber(now[2])}
end
local token = 0
if ARGV[4] then
  local bad
  token, bad = draw(KEYS[3], tonumber(ARGV[4]), ARGV[5])
  if bad then
    return bad
  end
end
redis.call('hset', KEYS[1], owner, 1)
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if ARGV[3] == '2' then
  redis.call('lrem', KEYS[2], 1, ARGV[2])
end
return {-2, token}
