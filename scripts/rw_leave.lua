-- Takes back the mark that somebody waits, and has others ask whom it kept out.
--
-- KEYS[1]  the mark
-- KEYS[2]  the channel of the lock
-- ARGV[1]  uuid of the client
-- ARGV[2]  message: 1, upon which all who listen ask
-- ARGV[3]  publish command: publish, spublish or both: see say.lua
--
-- Reply: 1  the mark was the client's
--        0  it was not
--
-- Twice: the second run finds no mark. One that the client has set again meanwhile is set once more
-- when it asks the next time.

if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('del', KEYS[1])
say(ARGV[3], KEYS[2], ARGV[2])
return 1
