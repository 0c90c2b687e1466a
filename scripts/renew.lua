-- Renews many locks in one run.
--
-- KEYS[i]           a lock; all in one slot where the server is a cluster
-- ARGV[2 * i - 1]   its owner
-- ARGV[2 * i]       its lease in milliseconds; a longer remaining time stays
--
-- Reply: an array with one number for each lock:
--        1  the owner has it for the whole lease from now, or longer
--        0  it is not the owner's: free, another owner's, or not a lock at all
--
-- On a connection with client tracking, the server sends an invalidation when another client
-- changes a lock whose reply is 1.
--
-- Twice: it sets the same expiry again, and never an earlier one: a late renewal must not shorten a
-- later grant. PEXPIRE is among the commands that Redis permits when it is out of memory.
--
-- Before Redis 7.2, on a connection with client tracking, the server remembers all keys of the script at each read of one of
-- them. So each lock costs one read here, and those that were written are read by one command for all.
local renewed, written = {}, {}
local compares = redis.REDIS_VERSION_NUM ~= nil -- from Redis 7 on PEXPIRE has options, and a script can read the version
for i, lock in ipairs(KEYS) do
  local lease = ARGV[2 * i]
  -- pcall, so that one key of another type does not fail the others. Any other error does not tell
  -- whose the lock is.
  local held = redis.pcall('hexists', lock, ARGV[2 * i - 1])
  if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then
    return held
  end
  if held == 1 then
    local set = compares and redis.pcall('pexpire', lock, lease, 'gt')
    if set == 0 then
      set = redis.pcall('pexpire', lock, lease, 'nx') -- for a lock that does not expire
    end
    if type(set) ~= 'number' then
      compares, set = false, 0
      if redis.call('pttl', lock) < tonumber(lease) then
        set = redis.call('pexpire', lock, lease)
      end
    end
    if set == 1 then
      written[#written + 1] = lock
    end
    renewed[i] = 1
  else
    renewed[i] = 0
  end
end
if #written > 0 then
  redis.call('exists', unpack(written)) -- for tracking, which the writes ended
end
return renewed
