-- What the scripts of the read-write lock share. It stands behind handover.lua and in front of them, and
-- is no step of its own.
--
-- The lock is Redisson's: a hash with the field mode, which is read or write, a field "<uuid>:<n>" with a count
-- for each reader, and "<uuid>:<n>:write" for the writer. Each hold of a reader has a key beside the hash,
-- "<prefix><uuid>:<n>:rwlock_timeout:<i>" with i from 1 to the count, that lives as long as that hold's
-- lease; the hash lives as long as the longest of them, or as the writer's. A process of this library
-- counts for itself: its counts are 1.
--
-- Two more keys are this library's, and Redisson knows nothing of them: marks that a reader, or a writer,
-- waits, each with the uuid of the client that was the last to set it. A client that waits sets its mark
-- again and again, so that one that has died keeps the others out for no longer than the mark lives.
-- New readers do not pass a waiting writer; a writer that releases leaves the next turn to waiting readers.
-- Redisson's waiters set no marks and heed none: they listen on the lock's channel and race. Theirs is the longer
-- way, from the connection to a thread to the next request, so that they would hardly ever get a lock that is
-- wanted here all the time. So marks are set for them, too, with the value redisson.
--
-- Processes of this library that wait listen on that channel as well. Each of them subscribes besides to a channel
-- that is named as the mark of writers is, on which nothing is ever said: so they can be told from Redisson's.
--
-- What a process is told on its channel is in handover.lua: wanted and taken.

-- redissons reports whether somebody listens who is not of this library. Where one may not ask, nobody does.
local function redissons(publish, channel, writer)
  local ok, more = pcall(function()
    return listening(publish, channel) > listening(publish, writer)
  end)
  return ok and more
end

-- leave marks for so many milliseconds that it is the turn of Redisson's waiters. A mark that somebody of this library
-- set stays as it is. A server without memory left, or permission, does without.
local function leave(mark, ms)
  if redis.call('pttl', mark) < ms or redis.call('get', mark) == 'redisson' then
    redis.pcall('set', mark, 'redisson', 'px', ms)
  end
end

-- start leaves a lock that was just freed to Redisson's waiters, if there are any, for a moment.
local function start(publish, channel, reader, writer)
  if redissons(publish, channel, writer) then
    leave(reader, 5)
    leave(writer, 5)
  end
end

-- has returns 1 if the lock has that field, 0 if not or if it is no hash, or an error that says nothing
-- about it.
local function has(lock, field)
  local held = redis.pcall('hexists', lock, field)
  if type(held) == 'table' and string.find(held.err, 'WRONGTYPE') then
    return 0
  end
  return held
end

-- holds calls f with the field and with the key of each hold of each reader.
local function holds(lock, prefix, f)
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for hold = 1, tonumber(fields[i + 1]) or 0 do
      f(fields[i], prefix .. fields[i] .. ':rwlock_timeout:' .. hold)
    end
  end
end

-- longest returns for how many milliseconds the last of the readers has the lock; 0 if none is left.
local function longest(lock, prefix)
  local most = 0
  holds(lock, prefix, function(_, key)
    most = math.max(most, redis.call('pttl', key))
  end)
  return most
end
--
