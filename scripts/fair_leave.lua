-- Removes owners of one process that are withdrawn from the queue, and takes the lock from the one that holds it, if one
-- does. A free lock is passed on. Without owners, the holder gets a message that another owner wants the lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue
-- KEYS[3]  the times of its waiters
-- KEYS[4]  their notes
-- KEYS[5]  the prefix of their channels
-- KEYS[6]  the counter of its fencing tokens
-- ARGV[1]  the uuid of the process
-- ARGV[2]  the time of the client in milliseconds since 1970
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- For each owner, one after the other, from i = 4 on:
-- ARGV[i]      the number of the owner
-- ARGV[i + 1]  the duration of its place in milliseconds, beyond those before it
--
-- Reply: 0  they are gone
--        2  likewise, and it is the turn of a waiter that does not listen: as with fair_release
--        an error that does not tell whose the lock is; nothing is changed
--
-- Twice: an owner is used for one grant only, so the second run finds none of them. HDEL is among the commands that Redis
-- permits when it is out of memory, and after it Redis permits the others of the script too.
local lock, queue, times, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, owners, waits = tonumber(ARGV[2]), {}, {}
for i = 4, #ARGV, 2 do
  local owner = ARGV[1] .. ':' .. ARGV[i]
  owners[#owners + 1], waits[owner] = owner, tonumber(ARGV[i + 1])
end
if #owners > 0 then
  -- pcall, because a key of another type is not the lock of any of them.
  local removed = redis.pcall('hdel', lock, unpack(owners))
  if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
    return removed
  end
  local length = redis.pcall('llen', queue)
  if type(length) == 'table' then
    if string.find(length.err, 'WRONGTYPE') then
      return 0 -- a key that is no queue has no places
    end
    return length
  end
  quit(queue, times, notes, owners, waits, now)
  if removed == 1 then
    redis.call('hdel', notes, 'last')
  end
end
if redis.call('exists', lock) == 1 then
  local holders = #owners == 0 and redis.pcall('hkeys', lock) or {}
  if holders[1] then
    tell('wanted', holders[1])
  end
  pcall(trust, lock, notes, ARGV[1])
  pcall(remind, lock, queue)
  return 0
end
pcall(expel, queue, times, notes, ARGV[1], now)
local ok, passed = pcall(pass, lock, queue, times, notes, KEYS[5], KEYS[6], ARGV[3], now)
return ok and passed == 2 and 2 or 0
