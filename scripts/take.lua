-- Acquires locks that are free, each independently of the others. It neither joins a wait queue nor
-- draws tokens: acquire does.
--
-- KEYS[i]           a lock
-- ARGV[2 * i - 1]   its owner
-- ARGV[2 * i]       its lease in milliseconds
--
-- or, for locks that have the same lease and of which none is named twice:
-- ARGV[i]           the owner of the lock KEYS[i]
-- ARGV[#ARGV]       the lease of each
--
-- Reply: -2 when every owner holds its lock for the whole lease from now, or longer; else four
-- values for
--        each lock, as in acquire
--
-- Twice: as with acquire.
local function taken(lock, owner, lease)
  local held = redis.pcall('hexists', lock, owner)
  if held == 1 then
    if redis.call('pttl', lock) < tonumber(lease) then
      redis.call('pexpire', lock, lease)
    end
    return -2, 0, 0, 0
  elseif held ~= 0 then
    return held, 0, 0, 0
  end
  local foreign = 1
  if string.sub(redis.call('hkeys', lock)[1], 15, 15) == '8' then
    foreign = 0
  end
  local now = redis.call('time')
  return redis.call('pttl', lock), foreign, tonumber(now[1]), tonumber(now[2])
end

-- Lua finds local names sooner than global ones.
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

-- Several locks are usually free. So the script asks once for all of them, and for each only if they are not; or if a
-- lock is named twice, and so is not free any more the second time.
local own, lease, replies = #ARGV == 2 * #KEYS, ARGV[#ARGV]
local free = #KEYS > 1
if free and own then
  local seen = {}
  for i = 1, #KEYS do
    local lock = KEYS[i]
    free = free and not seen[lock]
    seen[lock] = i
  end
end
free = free and call('exists', unpack(KEYS)) == 0

for i = 1, #KEYS do
  local lock, owner = KEYS[i], ARGV[i]
  if own then
    owner, lease = ARGV[2 * i - 1], ARGV[2 * i]
  end
  if free or call('exists', lock) == 0 then
    call('hset', lock, owner, '1')
    local set = pcall('pexpire', lock, lease)
    if set ~= 1 then -- without the permission the lock would never expire
      pcall('hdel', lock, owner)
      return set
    end
    if replies then
      replies[4 * i - 3], replies[4 * i - 2], replies[4 * i - 1], replies[4 * i] = -2, 0, 0, 0
    end
  else
    if not replies then
      replies = {}
      for j = 1, i - 1 do
        replies[4 * j - 3], replies[4 * j - 2], replies[4 * j - 1], replies[4 * j] = -2, 0, 0, 0
      end
    end
    replies[4 * i - 3], replies[4 * i - 2], replies[4 * i - 1], replies[4 * i] = taken(lock, owner, lease)
  end
end
return replies or -2
