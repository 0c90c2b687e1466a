-- Releases locks for which no process of this library waits, each independently of the others. release does this for
-- all other locks.
--
-- ARGV[1]       message: 0, the unlock message of Redisson
-- ARGV[2]       publish command: publish, spublish or both: see say.lua
-- KEYS[i]       a lock; n is the number of locks
-- KEYS[n + i]   its wait queue: a list of processes
-- KEYS[#KEYS]   the channel of the first lock: so Redis refuses a user who has no permission for such names at once, and
--               not only when somebody waits
-- ARGV[i + 2]   its owner
--
-- Reply: 0 when every lock was its owner's and is free now, and no client has subscribed to its channel; else four values
--        for each lock, as release has them, of which the first is
--         0  it is free now; the last value is how many clients have subscribed to its channel, as Redisson's waiters do
--        -1  it was not the owner's: free, another owner's, or not a lock at all
--         3  the wait queue exists; nothing is changed
--        an error: nothing is changed
--
-- Twice: the second run finds a lock that is not the owner's and changes nothing. HDEL and PUBLISH are among the
-- commands that Redis permits when it is out of memory.
-- Lua finds local names sooner than global ones.
local call, pcall, sub, KEYS, ARGV = redis.call, redis.pcall, string.sub, KEYS, ARGV
local message, publish, n, too = ARGV[1], ARGV[2], (#KEYS - 1) / 2
if publish == 'both' then
  publish, too = 'publish', 'spublish'
end

-- listening returns how many clients have subscribed to a channel. The command that published a message on it reached
-- as many, and those that have subscribed to a pattern; usually that is none.
local function listening(command, channel, reached)
  if type(reached) ~= 'number' or reached == 0 then
    return 0
  end
  return redis.pcall('pubsub', command == 'publish' and 'numsub' or 'shardnumsub', channel)[2] or 0
end

-- Usually no process waits for them. So the script asks once for several locks, and for each only if there is a wait
-- queue.
local nobody = n > 1 and call('exists', unpack(KEYS, n + 1, 2 * n)) == 0

local replies
for i = 1, n do
  local waiting, what, heard = KEYS[n + i], 3, 0
  if nobody or call('exists', waiting) == 0 then
    what = pcall('hdel', KEYS[i], ARGV[i + 2])
    if what == 1 then
      -- The names of a wait queue and of a channel end alike. The script makes the second one in less time than Redis
      -- takes to receive it.
      local channel = i == 1 and KEYS[#KEYS] or 'redisson_lock__channel' .. sub(waiting, #'lockgen_waiting' + 1)
      if too then
        heard = listening(too, channel, pcall(too, channel, message))
      end
      local reached = pcall(publish, channel, message) -- as in say.lua
      if reached ~= 0 then
        heard = heard + listening(publish, channel, reached)
      end
      what = 0
    elseif what == 0 or string.find(what.err, 'WRONGTYPE') then
      -- A key of another type is not the owner's lock. Any other error does not tell whose it is.
      what = -1
    end
  end
  if (what ~= 0 or heard > 0) and not replies then
    replies = {}
    for j = 1, 4 * i - 4 do
      replies[j] = 0
    end
  end
  if replies then
    replies[4 * i - 3], replies[4 * i - 2], replies[4 * i - 1], replies[4 * i] = what, 0, 0, heard
  end
end
return replies or 0
