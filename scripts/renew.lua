-- Renews many locks in one go.
--
-- KEYS[i]           a lock; all in one slot where the server is a cluster
-- ARGV[2 * i - 1]   its owner
-- ARGV[2 * i]       its lease in milliseconds; one that has more left is only looked at
--
-- Reply: an array with one number for each lock:
--        1  the owner has it for the whole lease from now, or longer
--        0  it is not the owner's: free, somebody else's, or not a lock at all
--
-- On a connection that tracks what it reads, the server tells when somebody else changes a lock that
-- is answered with 1.
--
-- Twice: it sets the same expiry again, and never an earlier one: a renewal that comes late must
-- not take back what was granted since. PEXPIRE is among the commands that a server without memory
-- left still accepts.
local renewed = {}
for i, lock in ipairs(KEYS) do
  -- pcall, so that one key of another type does not fail the others. Any other error says nothing
  -- about whose the lock is.
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
