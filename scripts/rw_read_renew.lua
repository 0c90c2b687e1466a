-- Renews many readers' holds in one run.
--
-- KEYS[2 * i - 1]  a lock; all in one slot where the server is a cluster
-- KEYS[2 * i]      the key of the reader's hold
-- ARGV[2 * i - 1]  the reader
-- ARGV[2 * i]      its lease in milliseconds; a longer remaining time stays
--
-- One argument more, of any text, says that the caller reads all the keys by a command of its own after this one.
--
-- Reply: an array with one number for each:
--        1  the reader holds the lock for the whole lease from now, or longer
--        0  it is not the reader's: free, others', or not a lock at all
--
-- On a connection with client tracking, the server sends an invalidation when another client
-- changes a lock whose reply is 1, unless the caller reads them itself.
--
-- Twice: it sets the same expiry again, and never an earlier one. A missing key of a hold is
-- created again: without it the lock would end with another reader's hold.
local renewed = {}
for i = 1, #KEYS / 2 do
  local held = has(KEYS[2 * i - 1], ARGV[2 * i - 1])
  if type(held) == 'table' then
    return held
  end
  if held == 1 then
    local lease = tonumber(ARGV[2 * i])
    if redis.call('pttl', KEYS[2 * i]) < lease and redis.call('pexpire', KEYS[2 * i], lease) == 0 then
      redis.call('set', KEYS[2 * i], '1', 'px', lease)
    end
    if redis.call('pttl', KEYS[2 * i - 1]) < lease then
      redis.call('pexpire', KEYS[2 * i - 1], lease)
      if #ARGV == #KEYS then
        redis.call('hexists', KEYS[2 * i - 1], ARGV[2 * i - 1]) -- for tracking, which the write ended
      end
    end
  end
  renewed[i] = held
end
return renewed
