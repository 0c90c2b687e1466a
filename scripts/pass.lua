--
-- Hands one lock over to the only process in its wait queue, which most releases do that are not left to free. This file
-- stands in front of release, ahead of the shared functions: to create those takes the server longer than to hand the lock
-- over. Anything else is left to release, which goes on from here. The arguments and the reply are those of release, but one number
-- instead of 1, 0, 0, 0: a table costs a tenth of the script.

-- freed says that the owner's lock was just freed, and first is the place that was taken from the wait queue, if there was one.
local freed, first
if #KEYS == 4 and ARGV[5] == '' and ARGV[7] == '0' then
  local lock, waiting, owner = KEYS[1], KEYS[2], ARGV[4]
  freed = not string.find(owner, '+', 1, true) and redis.pcall('hdel', lock, owner) == 1
  first = freed and redis.pcall('lpop', waiting)
  if type(first) == 'string' then
    local uuid, n = string.match(first, '^([^:]+):(%d+)$') -- else it demands tokens, or is no place of this library
    if uuid and string.byte(uuid, 15) == 56 and string.byte(uuid, 20) == 56 and redis.pcall('lindex', waiting, '0') == false then
      local now = redis.pcall('time')
      if not now.err and type(redis.pcall('hset', lock, first, '1')) == 'number' and redis.pcall('pexpire', lock, ARGV[3]) == 1 then
        -- Not by string.format: it would read the time as a number, and ends a key at a zero byte.
        local granted = 'granted ' .. n .. ' ' .. now[1] .. string.sub('00000' .. now[2], -6) .. ' 0 0 of lock ' .. lock
        local heard = redis.pcall('publish', 'lockgen_process:' .. uuid, granted)
        if type(heard) == 'number' and heard > 0 then
          return 1
        end
        redis.call('hdel', lock, first) -- the process does not listen
        first = nil
      end
    end
  else
    first = nil -- release gets the error once more
  end
end
