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
local renewed = {}
for i, lock in ipairs(KEYS) do
  -- pcall, so that one key of another type does not fail the others. Any other error does not tell
  -- whose the lock is.
  local held = redis.pcall('hexists', lock, ARGV[2 * i - 1])
  if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then
    return held
  end
  if held == 1 then
    if redis.call('pttl', lock) < tonumber(ARGV[2 * i]) then
      redis.call('pexpire', lock, ARGV[2 * i])
      redis.call('hexists', lock, ARGV[2 * i - 1]) -- for tracking, which the write ended
    end
    renewed[i] = 1
  else
    renewed[i] = 0
  end
end
return renewed
