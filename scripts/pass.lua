--
-- Hands one lock over to the first process in its wait queue, or keeps it for the process that releases it and wants it again: what
-- most releases do that are not left to free. This file stands in front of release, ahead of the shared functions: to create those
-- takes the server longer than to hand the lock over. Anything else is left to release, which goes on from here. The arguments and
-- the reply are those of release, but without again one number instead of 1, 0, 0, 0: a table costs a tenth of the script.

-- freed says that the owner's lock was just freed, stands that again is in the wait queue, first is the place that was taken from
-- there, if there was one, and passed says that first has the lock, and that the next waiter has to be told.
local freed, stands, first, passed
if #KEYS == 4 and not string.find(ARGV[4], '+', 1, true) then
  local try, lock, waiting, again = redis.pcall, KEYS[1], KEYS[2], ARGV[5]
  local now = try('time')
  freed = not now.err and try('hdel', lock, ARGV[4]) == 1
  local place = freed and try('lindex', waiting, '0') -- false if the queue is empty
  local waits = type(place) == 'string'
  local second = waits and try('lindex', waiting, '1')
  -- Else Redisson's waiters may have a start.
  local ours = waits and ARGV[7] == '0' or freed and ARGV[2] == 'publish' and try('pubsub', 'numsub', KEYS[3])[2] == 0
  local uuid, n = string.match(waits and ours and place or '', '^([^:]+):(%d+)$') -- else it demands tokens, or is no place of this library
  if uuid and place ~= again and string.byte(uuid, 15) == 56 and string.byte(uuid, 20) == 56 then
    stands = again ~= '' and type(try('rpush', waiting, again)) == 'number'
    if stands or again == '' then
      first = try('lpop', waiting)
    end
    if first == place and type(try('hset', lock, first, '1')) == 'number' and try('pexpire', lock, ARGV[3]) == 1 then
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
      if type(heard) == 'number' and heard > 0 then
        if told then
          return again == '' and 1 or {1, tonumber(now[1]), tonumber(now[2]), 0}
        end
        passed = true
      else
        redis.call('hdel', lock, first) -- the process does not listen
        first = nil
      end
    elseif type(first) ~= 'string' then
      first = nil -- release gets the error once more
    end
  elseif ours and place == false and again ~= '' and not string.find(again, '+', 1, true) then
    if type(try('hset', lock, again, '1')) == 'number' and try('pexpire', lock, ARGV[6]) == 1 then
      return {2, tonumber(now[1]), tonumber(now[2]), 0}
    end
    try('hdel', lock, again) -- likewise
  end
end
