-- Raises the counter of a lock's fencing tokens, so that the next token is larger than one from another server.
--
-- KEYS[1]  the counter
-- ARGV[1]  the token
-- ARGV[2]  for how many milliseconds the counter is kept, or 0 for ever
--
-- Reply: 1   the counter is no less than the token
--        an error when the key is no counter; nothing is changed
--
-- Twice: the second run finds the counter raised, and keeps it for as long from then on.
local stored = redis.call('get', KEYS[1])
local last = tonumber(stored or '0')
if not last then
  return redis.error_reply('ERR the counter of fencing tokens is not an integer or out of range: ' .. KEYS[1])
end
local forever = tonumber(ARGV[2]) == 0 or stored and redis.call('pttl', KEYS[1]) == -1
if last < tonumber(ARGV[1]) then
  if forever then
    redis.call('set', KEYS[1], ARGV[1])
  else -- both at once, as in handover.lua
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  end
elseif not forever then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
