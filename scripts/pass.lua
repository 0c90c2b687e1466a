--
-- Hands locks over to the first processes in their wait queues, or keeps one for the process that releases it and wants it again: what
-- most releases do that are not left to free. This file stands in front of release, ahead of the shared functions: to create those
-- takes the server longer than to hand a lock over. Anything else is left to release, which goes on from here. The arguments and
-- the reply are those of release, but one number instead of 1, 0, 0, 0 for each lock: a table costs a tenth of the script.

-- The time of the server before it did any of this, as TIME replies it.
local now = redis.pcall('time')

-- These four say what hand_over has done with a lock that it did not hand over: freed says that the owner's lock was just freed, stands
-- that again is in the wait queue, first is the place that was taken from there, if there was one, and passed says that first has the
-- lock, and that the next waiter has to be told.
local freed, stands, first, passed

-- hand_over returns 1 if the first in the queue has the lock, 2 if again has it, and nil if release has to go on.
local function hand_over(lock, waiting, channel, place, again, lease, start)
  local try = redis.pcall
  stands, first, passed = nil, nil, nil
  freed = not now.err and not string.find(place, '+', 1, true) and try('hdel', lock, place) == 1
  if not freed then
    return nil
  end
  local next, second
  if start == '0' and again == '' then -- release goes on with it if this process cannot have the lock
    next = try('lpop', waiting) -- false if the queue is empty
    if type(next) ~= 'string' then
      return nil
    end
    first, second = next, try('lindex', waiting, '0')
  else
    next = try('lindex', waiting, '0')
    local waits = type(next) == 'string'
    second = waits and try('lindex', waiting, '1')
    -- Else Redisson's waiters may have a start.
    local ours = waits and start == '0' or ARGV[2] == 'publish' and try('pubsub', 'numsub', channel)[2] == 0
    if ours and next == false and again ~= '' and not string.find(again, '+', 1, true) then
      if type(try('hset', lock, again, '1')) == 'number' and try('pexpire', lock, lease) == 1 then
        return 2
      end
      try('hdel', lock, again) -- release gets the error once more
      return nil
    elseif not waits or not ours or next == again then
      return nil
    end
  end
  local uuid, n = string.sub(next, 1, 36), string.sub(next, 38) -- a pattern takes the server longer
  if string.byte(next, 15) ~= 56 or string.byte(next, 20) ~= 56 or string.byte(next, 37) ~= 58 or string.find(n, '+', 1, true) then
    return nil -- it demands tokens, or is no place of this library
  end
  if not first then
    stands = again ~= '' and type(try('rpush', waiting, again)) == 'number'
    if stands or again == '' then
      first = try('lpop', waiting)
    end
    if first ~= next then
      first = type(first) == 'string' and first or nil -- likewise
      return nil
    end
  end
  if type(try('hset', lock, first, '1')) ~= 'number' or try('pexpire', lock, ARGV[3]) ~= 1 then
    return nil
  end
  local told = true -- again needs no message, since it has the reply
  if second then -- before granted, see next_owner
    local uuid, n = string.match(second, '^([^:]+):(%d+)')
    told = uuid and string.byte(uuid, 15) == 56 and string.byte(uuid, 20) == 56
      and try('publish', 'lockgen_process:' .. uuid, 'soon ' .. n .. ' ' .. ARGV[3])
    told = type(told) == 'number' and told > 0
  end
  -- Not by string.format: it would read the time as a number, and ends a key at a zero byte.
  local granted = 'granted ' .. n .. ' ' .. now[1] .. string.sub('00000' .. now[2], -6)
  granted = granted .. ((second or stands) and ' 1' or ' 0') .. ' 0 of lock ' .. lock
  local heard = try('publish', 'lockgen_process:' .. uuid, granted)
  if type(heard) ~= 'number' or heard == 0 then
    try('hdel', lock, first) -- the process does not listen
    first = nil
    return nil
  end
  passed = not told
  return told and 1 or nil
end

-- Of several locks, the first ones are handed over here until one is not, or is wanted again. handed is how many were, and tried
-- includes the one that was not.
local handed, tried = 0, 0
while tried == handed and 4 * tried < #KEYS and (ARGV[4 * tried + 5] == '' or #KEYS == 4) do
  local i = 4 * tried
  tried = tried + 1
  local what = hand_over(KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7])
  if what and ARGV[i + 5] ~= '' then
    return {what, tonumber(now[1]), tonumber(now[2]), 0}
  elseif what then
    handed = tried
  end
end
if 4 * handed == #KEYS then
  return 1
end
