-- Releases permits that expire.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  its channel
-- KEYS[3]  the taken permits, scored with the time when they expire
-- ARGV[1]  ids of the permits, of 16 bytes each
-- ARGV[2]  publish command: publish, spublish or both: see say.lua
-- ARGV[3]  all: 1 to do nothing unless all of them exist and have not expired, else 0
-- ARGV[4]  if the semaphore does not exist: 0 to create it with them, 1 not to, since a request that acquires creates it
--
-- To release all or nothing, besides:
--
-- KEYS[4]  the requests of the client
-- ARGV[5]  number of the request
-- ARGV[6]  number below which the client needs no results any more
-- ARGV[7]  milliseconds for which to keep the result
--
-- Reply: n   number of released permits that had not expired
--        -9  the client gave up the request
--        WRONGTYPE when a key is something else; nothing is changed
--
-- Twice: an id is used for one permit only, so the second run finds none. With a number it finds
-- the result of the first: missing permits do not tell which request released them.
local done = KEYS[4] and outcome(KEYS[4], ARGV[5])
if done then
  return done
end
local now = clock()
local valid, ids, known = 0, {}, {}
each(ARGV[1], function(id)
  local over = redis.call('zscore', KEYS[3], id)
  if over and not known[id] then
    ids[#ids + 1], known[id] = id, true
    if tonumber(over) > now then
      valid = valid + 1
    end
  end
end)
if ARGV[3] == '1' and valid < #ARGV[1] / 16 then
  if KEYS[4] then
    note(KEYS[4], ARGV[5], ARGV[6], ARGV[7], 0)
  end
  return 0
end
local exists = count(KEYS[1]) -- or fail, before anything is changed
if #ids > 0 then
  -- No permit has this id. The command shows that the last ones are permitted, and Redis permits it even when it is out of memory.
  redis.call('zrem', KEYS[3], '')
  keep(KEYS[1], KEYS[3])
end
if KEYS[4] then
  note(KEYS[4], ARGV[5], ARGV[6], ARGV[7], valid)
end
if #ids > 0 then
  local free = #ids -- as many are announced to the waiters, the first of which creates the semaphore
  if exists or ARGV[4] == '0' then
    free = (exists or 0) + #ids
    if KEYS[4] then
      behind(KEYS[4], ARGV[5], ARGV[7], adding(KEYS[1], KEYS[3], exists, #ids))
    else
      redis.call(adding(KEYS[1], KEYS[3], exists, #ids))
    end
  end
  for _, id in ipairs(ids) do
    redis.call('zrem', KEYS[3], id)
  end
  announce(ARGV[2], KEYS[2], free)
end
return valid
