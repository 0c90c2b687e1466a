-- Records that an interval of a schedule was done. If the server has lost the schedule meanwhile, it also records that the interval was
-- begun: processes that do not know of it may wait for the lock.
--
-- KEYS[1]  the schedule, see every.lua
-- ARGV[1]  the start of the interval, in milliseconds since 1970
-- ARGV[2]  for how many milliseconds the schedule is kept
--
-- Reply: 1  recorded
--        0  a later interval was done, too
--        WRONGTYPE when the schedule is something other than a hash
--
-- Twice: the second run sets the same.
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
if begun < start or done > start and done <= begun then
  return 0
end
redis.call('hset', KEYS[1], 'done', ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
