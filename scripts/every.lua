-- Begins the present interval of a schedule, for one of all processes that ask, or returns when the next interval
-- begins. Intervals count from 1970 by the clock of the server.
--
-- KEYS[1]  the lock of the process that runs
-- KEYS[2]  the schedule: a hash of begun, the start of the last interval that was begun, by, its owner, and done, the start of
--          the last one that was done
-- ARGV[1]  the length of an interval in milliseconds
-- ARGV[2]  the owner of the lock, which begins; empty to read only
-- ARGV[3]  its fencing token
-- ARGV[4]  the start of the last interval that the process knows to have begun, in case the server lost it; -1 if it knows
--          none
-- ARGV[5]  for how many milliseconds the schedule is kept
--
-- Reply: {what, start, left, begun, done}
--        what   2  the owner begins the present interval
--               1  the interval can begin: ask as the owner of the lock
--               0  it was begun before
--              -1  the owner does not hold the lock
--        start  of the present interval, in milliseconds since 1970
--        left   milliseconds to the start of the next one that can begin
--        begun  the start of the last interval that was begun, this one if it was; -1 if none is known
--        done   the start of the last one that was done; -1 if none is known
--        WRONGTYPE when the lock or the schedule is something other than a hash
--
-- Twice: the schedule has the owner that began the interval, and this owner gets the same reply again.
local interval = tonumber(ARGV[1])
local time = redis.call('time')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local start = now - now % interval

local stored = {}
local fields = redis.call('hgetall', KEYS[2])
for i = 1, #fields, 2 do
  stored[fields[i]] = fields[i + 1]
end
-- The first interval starts at 0: one of more than the years since 1970 is the first one now.
local begun = math.max(tonumber(stored.begun or '-1') or -1, tonumber(ARGV[4]))
local done = tonumber(stored.done or '-1') or -1
-- The clock was set back since. If by little, the interval that was begun is waited for; if by much, that would take
-- too long.
if begun > start + interval then
  begun, stored.by = -1, nil
end
if done > start + interval then
  done = -1
end

local left = math.max(begun, start) + interval - now
local by = ARGV[2] .. ' ' .. ARGV[3]
if ARGV[2] == '' then
  return { begun < start and 1 or 0, start, left, begun, done }
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return { -1, start, left, begun, done }
elseif begun >= start then
  return { begun == start and stored.by == by and 2 or 0, start, left, begun, done }
end
redis.call('hset', KEYS[2], 'begun', string.format('%.0f', start), 'by', by)
local set = redis.pcall('pexpire', KEYS[2], ARGV[5])
if type(set) == 'table' then -- without the permission the schedule would never expire
  redis.call('hdel', KEYS[2], 'begun', 'by')
  if #fields > 0 then
    redis.call('hset', KEYS[2], unpack(fields))
  end
  return set
end
return { 2, start, left, start, done }
