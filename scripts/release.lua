-- Gives the lock back: to the first in line, or to whoever asks. An owner that does not have it
-- leaves the line.
--
-- KEYS[1]  the lock
-- KEYS[2]  the list of processes that wait for it
-- KEYS[3]  its channel
-- KEYS[4]  the counter of its fencing tokens
-- ARGV[1]  place in line, which names the owner
-- ARGV[2]  message: 0, the unlock message of Redisson
-- ARGV[3]  publish command: publish, or spublish in a cluster with sharded channels
-- ARGV[4]  claim lease in milliseconds: what the next owner gets until it renews
-- ARGV[5]  again: the place, at the end of the line, by which the same process wants the lock once
--          more; empty if it does not
-- ARGV[6]  lease in milliseconds that again gets when nobody else is in line
-- ARGV[7]  turn: 1 if it is the turn of Redisson's waiters, should there be any; else 0
--
-- Reply: {what}, or {what, s, µs, token} with the time of the server if there is an again, and the first
--        of its fencing tokens if it has the lock and wanted some, else 0
--        what is -1  the lock was not the owner's: free, somebody else's, or not a lock at all
--                 0  it is free now
--                 1  the first in line has it
--                 2  again has it
--
-- Twice: an owner is used for one grant only, so the second run finds a lock that is not the
-- owner's and changes nothing. DEL and PUBLISH are among the commands that a server without
-- memory left still accepts, and after the first of them it accepts the others of the script too.

local again = ARGV[5]
local now = {}
if again ~= '' then
  now = redis.call('time')
end
local function reply(what, token)
  return {what, tonumber(now[1]), tonumber(now[2]), token or 0}
end

-- pcall, because a key of another type is simply not the owner's lock. Any other error says nothing
-- about whose it is.
local held = redis.pcall('hexists', KEYS[1], owner_of(ARGV[1]))
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then
  return held
end
if held ~= 1 then
  local first = redis.pcall('lindex', KEYS[2], 0)
  if redis.pcall('lrem', KEYS[2], 1, ARGV[1]) == 1 and first == ARGV[1] then
    -- The first in line listens for more than the others do: somebody has to.
    tell_look(KEYS[2], ARGV[4])
  end
  return reply(-1)
end

-- From here on the lock is free. What can fail, because the line is no list, must not keep the
-- others from hearing of it.
redis.call('del', KEYS[1])
if again ~= '' then
  pcall(stand, KEYS[2], again, 0)
end
local function listeners()
  return redis.call('pubsub', 'numsub', KEYS[3])[2]
end
if ARGV[7] == '0' or listeners() == 0 then
  local ok, place, token = pcall(next_owner, KEYS[1], KEYS[2], KEYS[4], ARGV[4], again)
  if not ok then
    place = nil
  end
  if place and place ~= again then
    return reply(1)
  end
  if place and listeners() == 0 then
    redis.call('pexpire', KEYS[1], ARGV[6])
    return reply(2, token)
  end
  if place then -- alone in line, but Redisson's waiters want it too
    redis.call('del', KEYS[1])
    stand(KEYS[2], again, 0)
  end
end
redis.call(ARGV[3], KEYS[3], ARGV[2])
pcall(tell_look, KEYS[2], ARGV[4])
return reply(0)
