--
-- Answers one request that would join the wait queue, in the two most frequent cases: the lock is free, or a process of this
-- library holds it and nobody waits yet. This file stands in front of acquire, ahead of the shared functions: to create those
-- takes the server longer than to answer the request. Anything else is left to acquire, which goes on from here. The arguments
-- and the reply are those of acquire.

if #KEYS == 3 and ARGV[3] ~= '0' and ARGV[4] == '0' and not string.find(ARGV[2], '+', 1, true) then
  local try, lock, waiting, owner = redis.pcall, KEYS[1], KEYS[2], ARGV[2]
  local ttl = try('pttl', lock)
  if ttl == -2 and ARGV[3] == '1' then
    if type(try('hset', lock, owner, '1')) == 'number' then
      if try('pexpire', lock, ARGV[1]) == 1 then
        return {-2, 0, 0, 0}
      end
      try('hdel', lock, owner) -- acquire gets the error once more
    end
  elseif type(ttl) == 'number' and ttl >= 0 then
    local holders = try('hkeys', lock)
    local holder = holders[1]
    if holder and not holders[2] and holder ~= owner then
      local uuid, n = string.match(holder, '^([^:]+):(%d+)$')
      local now = uuid and string.byte(uuid, 15) == 56 and try('exists', waiting) == 0 and try('time')
      if now and not now.err and try('rpush', waiting, owner) == 1 then
        if try('pexpire', waiting, ttl + 60000) == 1 then
          try('publish', 'lockgen_process:' .. uuid, 'wanted ' .. n .. ' of lock ' .. lock)
          return {ttl, 0, tonumber(now[1]), tonumber(now[2])}
        end
        try('lrem', waiting, '1', owner) -- likewise
      end
    end
  end
end
