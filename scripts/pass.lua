--
-- Hands locks over to the first processes in their wait queues, or keeps one for the process that releases it and wants it again: what
-- most releases do that are not left to free. This file stands in front of release, ahead of the shared functions: to create those
-- takes the server longer than to hand a lock over. Anything else is left to release, which goes on from here. The arguments and
-- the reply are those of release, but one number instead of 1, 0, 0, 0 for each lock: a table costs a tenth of the script.
-- It has no function, and its checks begin with what is usual: the first waiter of a lock waits for this script, and a server that
-- has had nothing to do for a moment takes as long for a few of these lines as for a command.

-- The time of the server before it did any of this, as TIME replies it.
local now = redis.pcall('time')

-- For each lock that was not just handed over, by its number, left has a table. In it, what is 1 if the first in the queue has the
-- lock, 2 if again has it, and nil if release has to go on. Then freed says that the owner's lock was just freed, first is the place
-- that was taken from the queue, if there was one, stands says that again is in the queue, and passed says that first has the lock,
-- and that the next waiter has to be told. left has true for the name of each of these locks: release goes on with a lock that stands
-- there twice, in the order of the arguments.
local left

for i = 1, #KEYS / 4 do
  local try, lock, waiting, again, start = redis.pcall, KEYS[4 * i - 3], KEYS[4 * i - 2], ARGV[4 * i + 1], ARGV[4 * i + 3]
  local what, freed, first, stands, passed
  repeat
    if now.err or left and left[lock] or try('hdel', lock, ARGV[4 * i]) ~= 1 then -- as of a place that demands tokens, which is no owner
      break
    end
    freed = true
    local next, second
    if start == '0' and again == '' then -- release goes on with it if this process cannot have the lock
      next = try('lpop', waiting) -- false if the queue is empty
      if not next or next.err then
        break
      end
      first, second = next, try('lindex', waiting, '0')
    else
      next = try('lindex', waiting, '0')
      local waits = next and not next.err
      second = waits and try('lindex', waiting, '1')
      -- Else Redisson's waiters may have a start.
      local ours = waits and start == '0' or ARGV[2] == 'publish' and try('pubsub', 'numsub', KEYS[4 * i - 1])[2] == 0
      if ours and next == false and again ~= '' and not string.find(again, '+', 1, true) then
        if try('hset', lock, again, '1') == 1 and try('pexpire', lock, ARGV[4 * i + 2]) == 1 then
          what = 2
        else
          try('hdel', lock, again) -- release gets the error once more
        end
        break
      elseif not waits or not ours or next == again then
        break
      end
    end
    local string = string
    local byte, n = string.byte, string.sub(next, 38) -- a pattern takes the server longer
    if byte(next, 15) ~= 56 or byte(next, 20) ~= 56 or byte(next, 37) ~= 58 or string.find(n, '+', 1, true) then
      break -- it demands tokens, or is no place of this library
    end
    if not first then
      stands = again ~= '' and type(try('rpush', waiting, again)) == 'number'
      if stands or again == '' then
        first = try('lpop', waiting)
      end
      if first ~= next then
        first = type(first) == 'string' and first or nil -- likewise
        break
      end
    end
    if try('hset', lock, first, '1') ~= 1 or try('pexpire', lock, ARGV[3]) ~= 1 then
      break
    end
    local told = true -- again needs no message, since it has the reply
    if second and not second.err then -- before granted, see next_owner
      local uuid, n = string.match(second, '^([^:]+):(%d+)')
      told = uuid and byte(uuid, 15) == 56 and byte(uuid, 20) == 56
        and try('publish', 'lockgen_process:' .. uuid, 'soon ' .. n .. ' ' .. ARGV[3])
      told = type(told) == 'number' and told > 0
    end
    -- Not by string.format: it would read the time as a number, and ends a key at a zero byte.
    local heard = try('publish', 'lockgen_process:' .. string.sub(next, 1, 36), 'granted ' .. n .. ' ' .. now[1] ..
      string.sub('00000' .. now[2], -6) .. ((second or stands) and ' 1' or ' 0') .. ' 0 of lock ' .. lock)
    if heard ~= 1 and (type(heard) ~= 'number' or heard == 0) then
      try('hdel', lock, first) -- the process does not listen
      first = nil
    elseif told then
      what = 1
    else
      passed = true
    end
  until true
  if what ~= 1 or again ~= '' then
    left = left or {}
    left[lock], left[i] = true, {what = what, freed = freed, first = first, stands = stands, passed = passed}
  end
end

if not left then
  return 1
elseif #KEYS == 4 and left[1].what then
  return {left[1].what, tonumber(now[1]), tonumber(now[2]), 0}
end
