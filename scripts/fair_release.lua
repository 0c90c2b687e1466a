--
-- Releases the lock, to the head of the queue. An owner that does not hold it leaves the queue.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue
-- KEYS[3]  the times of its waiters
-- KEYS[4]  their notes
-- KEYS[5]  the prefix of their channels
-- KEYS[6]  the counter of its fencing tokens
-- ARGV[1]  the owner
-- ARGV[2]  the duration of its place in milliseconds, beyond those before it
-- ARGV[3]  the time of the client in milliseconds since 1970
-- ARGV[4]  publish command: publish, spublish or both: see say.lua
-- For each owner of the same process that had the lock after it, or with it, and is done, from i = 5 on:
-- ARGV[i]      its number
-- ARGV[i + 1]  the duration of its place in milliseconds, beyond those before it
--
-- Reply: -1  the lock was not the owner's: free, another owner's, or not a lock at all
--         0  it is free now, and the head of the queue, if there is one, has a message about that
--         1  the head of the queue has it
--         2  it is free now, and it is the turn of a waiter that does not listen: run the script again when its time is over,
--            at the latest in two seconds, since nobody else will
--
-- If the lock that the owner waited for is free, it is passed on too: the message may have gone to the owner that leaves.
--
-- If the lock was taken from the owner by force, and granted to one of those that are done, it goes on to the next.
--
-- Twice: an owner is used for one grant only, so the second run finds a lock that is not the owner's, and a queue
-- without it and those after it. HDEL is among the commands that Redis permits when it is out of memory, and after
-- it Redis permits the others of the script too.

local lock, queue, times, notes, owner = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local wait, now = tonumber(ARGV[2]), tonumber(ARGV[3])
local after, waits = {}, {}
for i = 5, #ARGV, 2 do
  local served = string.sub(owner, 1, 37) .. ARGV[i]
  after[#after + 1], waits[served] = served, tonumber(ARGV[i + 1])
end
local function finish()
  if #after > 0 then
    quit(queue, times, notes, after, waits, now)
  end
end
local function pass_on()
  finish()
  return pass(lock, queue, times, notes, KEYS[5], KEYS[6], ARGV[4], now)
end
-- pcall, because a key of another type is not the owner's lock. Any other error does not tell whose it is.
local removed = redis.pcall('hdel', lock, owner)
if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
  return removed
end
if removed ~= 1 then
  local place = redis.pcall('lpos', queue, owner)
  if type(place) == 'table' and string.find(place.err, 'WRONGTYPE') then
    return -1 -- a key that is no queue has no place of the owner
  end
  quit(queue, times, notes, {owner}, {[owner] = wait}, now)
  if removed == 0 and #after > 0 then
    redis.call('hdel', lock, unpack(after))
  end
  if removed == 0 and redis.call('exists', lock) == 0 then
    expel(queue, times, notes, string.sub(owner, 1, 36), now)
    pass_on()
  else
    finish()
    pcall(trust, lock, notes, string.sub(owner, 1, 36))
    pcall(remind, lock, queue)
  end
  return -1
end
local ok, passed = pcall(function()
  redis.call('hdel', notes, 'last')
  return pass_on()
end)
return ok and passed or 0
