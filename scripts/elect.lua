-- Writes the record of the leader, or removes it.
--
-- KEYS[1]  the lock of the leader
-- KEYS[2]  the record of the leader; its name is also that of the channel that announces changes
-- ARGV[1]  the owner of the lock
-- ARGV[2]  its fencing token, behind as many zeros as requests of its term had no answer before this one
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
-- ARGV[4]  for how many milliseconds the record is kept; 0 to remove it
-- ARGV[5]  the value that the leader publishes
--
-- Reply: 1  the record is written, or removed
--        0  refused: the owner does not hold the lock, or the record is of a later term of this owner, or of a later request
--           of this term: its token has more zeros
--        WRONGTYPE when the lock is something other than a hash, or the record than a string
--
-- Twice: the record is the same after the second run, which announces nothing. A late run finds another owner of the lock, a
-- larger token, or the token with more zeros, and changes nothing.
local stored = redis.call('get', KEYS[2])
local token, owner = string.match(stored or '', '^(%d+) (%S+) ')
token = token or '0'
local term = tonumber(token)
local record = ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[5]

if ARGV[4] == '0' then
  if not stored or term ~= tonumber(ARGV[2]) then
    return 0
  end
  redis.call('del', KEYS[2])
  say(ARGV[3], KEYS[2], '0')
  return 1
end

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- The record of another owner is over, since that one does not hold the lock: its token is larger only if the clock was set back.
if owner == ARGV[1] and (term > tonumber(ARGV[2]) or term == tonumber(ARGV[2]) and #token > #ARGV[2]) then
  return 0
end
redis.call('set', KEYS[2], record, 'px', ARGV[4])
if record ~= stored then
  say(ARGV[3], KEYS[2], '1')
end
return 1
