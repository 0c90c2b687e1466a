--
--
-- Acquires the lock, or puts the owner into the queue and returns how long to wait.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue
-- KEYS[3]  the times of its waiters
-- KEYS[4]  their notes
-- KEYS[5]  the prefix of their channels
-- KEYS[6]  the counter of its fencing tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the owner
-- ARGV[3]  0 not to queue, 1 to queue, 2 to queue, where it should be already
-- ARGV[4]  how long its place lasts in milliseconds, beyond those before it
-- ARGV[5]  the time of the client in milliseconds since 1970
-- ARGV[6]  publish command: publish, spublish or both: see say.lua
-- ARGV[7]  note of the owner, empty if it cannot hear of a grant
-- ARGV[8]  number of fencing tokens to draw
-- ARGV[9]  for how many milliseconds their counter is kept, or 0 for ever
-- ARGV[10]  for how many milliseconds the head of the queue keeps its place at most while the lock is free, if it has no note;
--          the script keeps it for two seconds in any case
--
-- Reply: {-2, token, 0, 0, 0}        acquired: the owner holds the lock for the whole lease from now, or longer; token is
--                                    the first of its fencing tokens, 0 if it asked for none
--        {n, foreign, free, s, µs}   not acquired: if free is 0, another owner holds it for n more milliseconds, or for ever if n
--                                    is -1; if free is 1, the lock is free, and the head of the queue may acquire it for n
--                                    more milliseconds, -1 for ever. foreign is 1 if the owner before this one, holder or head,
--                                    is no process of this library; s and µs are the time of the server
--        free, or the third value of the first reply, is larger by 2 if the owner should have been in the queue, and was not:
--        its time to ask for a grant is over, or the server has lost the queue
--        WRONGTYPE when the lock is something other than a hash, or the queue no queue, and another error when the
--        counter is no counter; nothing is changed
--
-- Twice: an owner that holds the lock already keeps it for the whole lease from now, and not for less than before, with a
-- count of 1. A waiter is in the queue once, and its place lasts from now. The owner gets other, larger tokens;
-- the tokens of the first run are not used.

local lock, queue, times, notes, counter, owner = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6], ARGV[2]
local wait, now = tonumber(ARGV[4]), tonumber(ARGV[5])
local ttl = redis.call('pttl', lock)
local mine = ttl ~= -2 and redis.call('hexists', lock, owner) == 1
redis.call('llen', queue) -- of another type, before anything is changed
local lost = ARGV[3] == '2' and not mine and not redis.call('lpos', queue, owner) and 2 or 0

if mine then
  redis.call('hdel', notes, 'last')
else
  local process = string.sub(owner, 1, 36)
  if ttl == -2 then
    expel(queue, times, notes, process, now)
  else
    trust(lock, notes, process)
  end
  local head, time = evict(queue, times, notes, now)
  if ttl ~= -2 or head and head ~= owner then
    local place = head and redis.call('lpos', queue, owner)
    if ARGV[3] ~= '0' then
      local last = now + math.max(ttl, 0)
      if not place then
        local tail = redis.call('lindex', queue, '-1')
        local before = tail and redis.call('zscore', times, tail)
        place = redis.call('rpush', queue, owner) - 1
        redis.call('zadd', times, (tonumber(before or nil) or last) + wait, owner)
      elseif tonumber(redis.call('zscore', times, owner) or 0) < last + wait * (place + 1) then
        redis.call('zadd', times, last + wait * (place + 1), owner)
      end
      if place == 0 and ttl ~= -2 then
        tell('wanted', redis.call('hkeys', lock)[1])
      end
      if ARGV[7] ~= '' then
        redis.call('hset', notes, owner, ARGV[7])
        local keep = redis.call('zscore', times, owner) - now + 60000
        local left = redis.call('pttl', notes)
        if left == -1 then
          expire(notes, string.format('%.0f', keep), 'hdel', notes, owner)
        elseif left < keep then
          redis.call('pexpire', notes, string.format('%.0f', keep))
        end
      end
    end
    local free = 0
    if ttl == -2 then
      if pass(lock, queue, times, notes, KEYS[5], counter, ARGV[6], now) == 1 then
        ttl = redis.call('pttl', lock)
      else
        free = 1
        time = tonumber(redis.call('zscore', times, head) or nil)
        -- A waiter of this library reckons that all places ahead of it are as long as its own, and the place of a Java thread behind it ends
        -- as much later. The thread has the message that it is next, unless it is dead.
        local most = now + math.max(tonumber(ARGV[10]) or math.huge, least)
        if time and time > most and redis.call('hexists', notes, head) == 0 then
          time = most
          redis.call('zadd', times, most, head)
        end
        ttl = time and math.max(0, time - now) or -1
      end
    end
    local before = place and place > 0 and redis.call('lindex', queue, place - 1) or redis.call('hkeys', lock)[1] or head
    local foreign = before and string.sub(before, 15, 15) ~= '8' and 1 or 0
    local at = redis.call('time')
    return {ttl, foreign, free + lost, tonumber(at[1]), tonumber(at[2])}
  end
end

local token = 0
if ARGV[8] ~= '0' then
  local bad
  token, bad = draw(counter, tonumber(ARGV[8]), ARGV[9])
  if bad then
    return bad
  end
end
if mine then
  redis.call('hset', lock, owner, '1')
  if ttl < tonumber(ARGV[1]) then
    redis.call('pexpire', lock, ARGV[1])
  end
else
  hold(lock, owner, ARGV[1])
  admit(queue, times, notes, owner, wait, now)
end
return {-2, token, lost, 0, 0}
