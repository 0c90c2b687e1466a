-- Records that an interval of a schedule was done. If the server has lost meanwhile that the interval was begun, the script
-- records that, too: processes that do not know of it may wait for the lock. The script does not ask for the lock: the
-- interval was run, no matter who holds the lock now.
--
-- KEYS[1]  the schedule, see every.lua
-- ARGV[1]  the start of the interval, in milliseconds since 1970
-- ARGV[2]  for how many milliseconds the schedule is kept
--
-- Reply: 1  recorded
--        0  a later interval was done, too, or the clock was set back since to before the interval, and an earlier interval
--           was begun then
--        WRONGTYPE when the schedule is something other than a hash
--
-- Twice: the second run sets the same. A late one changes nothing that a later begin has written: the later interval stays
-- begun, by its owner.
local done, begun = -1, -1
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] == 'done' then
    done = tonumber(fields[i + 1]) or -1
  elseif fields[i] == 'begun' then
    begun = tonumber(fields[i + 1]) or -1
  end
end
local start = tonumber(ARGV[1])
if begun == -1 then
  redis.call('hset', KEYS[1], 'begun', ARGV[1], 'done', ARGV[1])
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if type(set) == 'table' then -- without the permission the schedule would never expire
    redis.call('hdel', KEYS[1], 'begun', 'done')
    return set
  end
  return 1
end
if begun < start then
  local time = redis.call('time')
  if start > tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) then
    return 0
  end
  -- The server went back to what it had before the begin. Its record of the owner is of the interval before.
  redis.call('hset', KEYS[1], 'begun', ARGV[1], 'by', '', 'done', ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if done > start and done <= begun then
  return 0
end
redis.call('hset', KEYS[1], 'done', ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
