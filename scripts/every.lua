-- Begins the present interval of a schedule, for one of all processes that ask, or returns when the next interval
-- begins. Intervals count from 1970 by the clock of the server.
--
-- KEYS[1]  the lock of the process that runs
-- KEYS[2]  the schedule: a hash of begun, the start of the last interval that was begun, by, its owner, and done, the start of
--          the last one that was done; by is empty if the server lost it
-- ARGV[1]  the length of an interval in milliseconds
-- ARGV[2]  the owner of the lock, which begins; empty to read only
-- ARGV[3]  its fencing token
-- ARGV[4]  the start of the last interval that the process knows to have begun, in case the server lost it; -1 if it knows
--          none
-- ARGV[5]  for how many milliseconds the schedule is kept
-- ARGV[6]  the start of the last interval that the process knows to be done, in case the server lost it; -1 if it knows none
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
-- Twice: the schedule has the owner that began the interval, and this owner gets the same reply again. The begin stores the
-- start of the last interval that was done, too.
local interval = tonumber(ARGV[1])
local time = redis.call('time')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local start = now - now % interval

local stored = {}
local fields = redis.call('hgetall', KEYS[2])
for i = 1, #fields, 2 do
  stored[fields[i]] = fields[i + 1]
end
-- latest returns the later one of two starts. It leaves out a start after limit: the clock was set back since. -1 stands for
-- none, since the first interval starts at 0: one of more than the years since 1970 is the first one now.
local function latest(one, other, limit)
  one, other = tonumber(one) or -1, tonumber(other) or -1
  return math.max(one <= limit and one or -1, other <= limit and other or -1)
end
-- If the clock was set back by little, the interval that was begun is waited for; if by much, that would take too long. No
-- interval is done that was not begun.
local begun = latest(stored.begun, ARGV[4], start + interval)
local done = latest(stored.done, ARGV[6], math.max(begun, start - 1))

local left = math.max(begun, start) + interval - now
local by = ARGV[2] .. ' ' .. ARGV[3]
if ARGV[2] == '' then
  return { begun < start and 1 or 0, start, left, begun, done }
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return { -1, start, left, begun, done }
elseif begun >= start then
  local same = begun == start and tonumber(stored.begun) == start and stored.by == by
  return { same and 2 or 0, start, left, begun, done }
end
local begin = { 'begun', string.format('%.0f', start), 'by', by }
if done >= 0 then
  begin[5], begin[6] = 'done', string.format('%.0f', done)
end
redis.call('hset', KEYS[2], unpack(begin))
local set = redis.pcall('pexpire', KEYS[2], ARGV[5])
if type(set) == 'table' then -- without the permission the schedule would never expire
  if #fields > 0 then
    redis.call('hset', KEYS[2], unpack(fields))
  end
  for i = 1, #begin, 2 do
    if not stored[begin[i]] then
      redis.call('hdel', KEYS[2], begin[i])
    end
  end
  return set
end
return { 2, start, left, start, done }
