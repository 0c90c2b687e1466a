-- Renews permits that expire, of many semaphores in one run.
--
-- KEYS[3 * i - 2]  a semaphore: how many permits are available
-- KEYS[3 * i - 1]  its channel
-- KEYS[3 * i]      the taken permits, scored with the time when they expire
-- ARGV[1]          publish command: publish, spublish or both: see say.lua
-- ARGV[2 * i]      ids of some permits of it, of 16 bytes each
-- ARGV[2 * i + 1]  their lease in milliseconds
--
-- Reply: an array with one number for each semaphore:
--        1  these permits are taken for the whole lease from now, or longer
--        0  not all of them are: they expired, were released, or there is no such semaphore
--        n  they are taken for the whole lease, but end in n milliseconds, with the semaphore; n is 2 or more
--
-- Twice: it sets the same expiry again, and never an earlier one. Redis permits its first write
-- even when it is out of memory, and after that the others too.
local now = clock()
local renewed = {}
for i = 1, #KEYS / 3 do
  local leases = KEYS[3 * i]
  -- pcall, so that one key of another type does not fail the others. Any other error does not tell
  -- whose the permits are.
  local is = redis.pcall('zremrangebyscore', leases, '1', '0')
  if type(is) == 'table' and not string.find(is.err, 'WRONGTYPE') then
    return is
  end
  local held = 0
  if type(is) == 'number' then
    -- pcall, because permits are renewed although expired ones cannot be made available.
    pcall(reclaim, KEYS[3 * i - 2], leases, KEYS[3 * i - 1], ARGV[1], now)
    local ttl = keep(KEYS[3 * i - 2], leases)
    held = 1
    if ttl >= 0 then
      held = ttl < 2 and 0 or ttl
    end
    each(ARGV[2 * i], function(id)
      if tonumber(redis.call('zscore', leases, id) or 0) <= now then
        held = 0
      end
    end)
  end
  if held > 0 then
    each(ARGV[2 * i], function(id)
      local new = now + tonumber(ARGV[2 * i + 1])
      if tonumber(redis.call('zscore', leases, id)) < new then
        redis.call('zadd', leases, digits(new), id)
      end
    end)
  end
  renewed[i] = held
end
return renewed
