-- Renews many locks in one run.
--
-- KEYS[i]           a lock; all in one slot where the server is a cluster
-- ARGV[2 * i - 1]   its owner
-- ARGV[2 * i]       its lease in milliseconds; a longer remaining time stays
--
-- One argument more, of any text, says that the caller reads all the locks by a command of its own after this one.
--
-- Reply: an array with one number for each lock:
--        1  the owner has it for the whole lease from now, or longer
--        0  it is not the owner's: free, another owner's, or not a lock at all
--
-- On a connection with client tracking, the server sends an invalidation when another client
-- changes a lock whose reply is 1, unless the caller reads them itself.
--
-- Twice: it sets the same expiry again, and never an earlier one: a late renewal must not shorten a
-- later grant. PEXPIRE is among the commands that Redis permits when it is out of memory.
--
-- Before Redis 7.2, on a connection with client tracking, the server remembers all keys of the script at each read of one of
-- them. So each lock costs one read here, and those that were written are read by one command for all.
local renewed, written = {}, {}
-- Lua finds local names sooner than global ones.
local try, KEYS, ARGV = redis.pcall, KEYS, ARGV
local compares = redis.REDIS_VERSION_NUM ~= nil -- from Redis 7 on PEXPIRE has options, and a script can read the version
local reads = #ARGV == 2 * #KEYS
for i = 1, #KEYS do
  local lock, lease = KEYS[i], ARGV[2 * i]
  -- pcall, so that one key of another type does not fail the others. Any other error does not tell
  -- whose the lock is.
  local held = try('hexists', lock, ARGV[2 * i - 1])
  if held == 1 then
    local set = compares and try('pexpire', lock, lease, 'gt')
    if set == 0 then
      set = try('pexpire', lock, lease, 'nx') -- for a lock that does not expire
    end
    if set ~= 1 and type(set) ~= 'number' then
      compares, set = false, 0
      if redis.call('pttl', lock) < tonumber(lease) then
        set = redis.call('pexpire', lock, lease)
      end
    end
    if set == 1 and reads then
      written[#written + 1] = lock
    end
  elseif held ~= 0 then
    if not string.find(held.err, 'WRONGTYPE') then
      return held
    end
    held = 0
  end
  renewed[i] = held
end
if #written > 0 then
  redis.call('exists', unpack(written)) -- for tracking, which the writes ended
end
return renewed
