-- Gives locks back that nobody of this library waits for, each independently of the others. Whom to
-- give others to is for release to say.
--
-- ARGV[1]       message: 0, the unlock message of Redisson
-- ARGV[2]       publish command: publish, spublish or both: see say.lua
-- KEYS[3 * i - 2]  a lock
-- KEYS[3 * i - 1]  the list of processes that wait for it
-- KEYS[3 * i]      its channel
-- ARGV[i + 2]   its owner
--
-- Reply: 0 when every lock was its owner's and is free now; else four values for each lock, as release has
--        them, of which the first is
--         0  it is free now
--        -1  it was not the owner's: free, somebody else's, or not a lock at all
--         3  somebody is in line, or was; nothing is changed
--        an error: nothing is changed
--
-- Twice: the second run finds a lock that is not the owner's and changes nothing. HDEL and PUBLISH are among
-- the commands that a server without memory left still accepts.
local message, publish, too = ARGV[1], ARGV[2]
if publish == 'both' then
  publish, too = 'publish', 'spublish'
end
-- Nobody waits for them, as a rule, so for several there is one question, and one for each only if somebody does.
local nobody = #KEYS > 3
if nobody then
  local lists = {}
  for i = 1, #KEYS / 3 do
    lists[i] = KEYS[3 * i - 1]
  end
  nobody = redis.call('exists', unpack(lists)) == 0
end

local replies
for i = 1, #KEYS / 3 do
  local lock, what = KEYS[3 * i - 2], 3
  if nobody or redis.call('exists', KEYS[3 * i - 1]) == 0 then
    what = redis.pcall('hdel', lock, ARGV[i + 2])
    if what == 1 then
      if too then
        redis.pcall(too, KEYS[3 * i], message)
      end
      redis.pcall(publish, KEYS[3 * i], message) -- as say.lua has it
      what = 0
    elseif what == 0 or string.find(what.err, 'WRONGTYPE') then
      -- Another type than a lock is simply not the owner's. Any other error says nothing about whose it is.
      what = -1
    end
  end
  if what ~= 0 and not replies then
    replies = {}
    for j = 1, 4 * i - 4 do
      replies[j] = 0
    end
  end
  if replies then
    replies[4 * i - 3], replies[4 * i - 2], replies[4 * i - 1], replies[4 * i] = what, 0, 0, 0
  end
end
return replies or 0
