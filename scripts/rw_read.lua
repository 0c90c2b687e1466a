-- Acquires the lock for reading, or returns how long to wait.
--
-- KEYS[1]  the lock
-- KEYS[2]  the key of the reader's hold
-- KEYS[3]  the queue of readers
-- KEYS[4]  the queue of writers
-- KEYS[5]  the turn
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the reader
-- ARGV[3]  a field of the lock, of the same holder, that lets the reader in ahead of all waiters; empty for none
-- ARGV[4]  for how many milliseconds to keep a place in the queue, or 0 not to wait
-- ARGV[5]  + for a process that gets no messages, else empty
--
-- Reply: -2  acquired: the reader holds the lock for the whole lease from now, or longer
--         n  not acquired: ask again in n milliseconds, or -1 if the time is unknown
--        WRONGTYPE when the key is something other than a hash; nothing is changed
--
-- Twice: a reader that holds the lock already keeps it for the whole lease from now, and not for less than before, with
-- a count of 1 and one key.

local mode = redis.call('hget', KEYS[1], 'mode')
local ttl = redis.call('pttl', KEYS[1])
if not (mode and redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
  if not mode and ttl ~= -2 then
    return ttl -- a lock of another kind
  end
  if not (mode and ARGV[3] ~= '' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then
    local place = ARGV[4] == '0' and '' or ARGV[2] .. ARGV[5]
    local wait = refused('read', KEYS[1], mode, ttl, KEYS[3], KEYS[4], KEYS[5], ARGV[2], place, ARGV[4])
    if wait then
      return wait
    end
  end
end
if mode then
  redis.call('hset', KEYS[1], ARGV[2], '1')
else
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], '1')
  expire(KEYS[1], ARGV[1], 'del', KEYS[1])
end
if redis.call('pttl', KEYS[2]) < tonumber(ARGV[1]) then
  redis.call('set', KEYS[2], '1', 'px', ARGV[1])
end
if mode and ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if redis.call('exists', KEYS[4]) == 1 then
  tell('wanted', ARGV[2])
end
return -2
