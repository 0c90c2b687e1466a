-- What the scripts of the read-write lock share. It stands behind handover.lua and in front of them, and
-- is no step of its own.
--
-- The lock is Redisson's: a hash with the field mode, which is read or write, a field "<uuid>:<n>" with a count
-- for each reader, and "<uuid>:<n>:write" for the writer. Each hold of a reader has a key beside the hash,
-- "<prefix><uuid>:<n>:rwlock_timeout:<i>" with i from 1 to the count, that lives as long as that hold's
-- lease; the hash lives as long as the longest of them, or as the writer's. A process of this library
-- counts for itself: its counts are 1.
--
-- Three more keys are this library's, and Redisson knows nothing of them: two lines of processes that wait, one to read and one
-- to write, and the turn. A process stands in a line by its owner, "<uuid>:<n>" or "<uuid>:<n>:write"; one that hears no
-- messages, and asks by its timer alone, with a + behind it. Those who wait ask again and again; a line that nobody of asks
-- for 2 seconds is forgotten, so that the dead keep nobody out for longer.
--
-- The turn is a string "<whose> <last> <place> <place> ...": whose is read, write or redisson; last is the side of this library,
-- read or write, whose turn was the last one; the places are those that were called and have not come. It counts for as long
-- as it lives for more than 2 seconds: after that it only says what was last. "redisson" alone counts until it expires.
--
-- THE RULE. At any time it is the turn of one side at most, so that no two can yield to each other.
--
--   the lock    the turn         who asks to read                   who asks to write
--   written     any              stands in line                     stands in line
--   read        nobody's         has it if nobody stands in line    stands in line
--                                to write, else stands in line
--   read        read             likewise; and who was called       stands in line
--                                has it
--   read        write, redisson  stands in line                     stands in line
--   free        read             has it if it was called, or if     stands in line
--                                nobody stands in line to write
--   free        write            stands in line                     has it if it was called, else stands in line
--   free        redisson         stands in line                     stands in line
--   free        nobody's         CHOOSE, and has it if that calls   CHOOSE, and has it if that calls nobody else
--                                nobody else
--
--   CHOOSE  The other side than the last one's is first. To read, all in line are called; to write, the first one. Who was
--           called is out of the line. One who hears is told to look; one who does not hear, and has a + behind it, is called
--           all the same; any other that does not hear is dead. If none is left of a side, the other side is called. The turn
--           counts for 100 ms, or 500 ms if one was called that does not hear.
--   FREED   When the lock was given back by this library, or taken by force: if a Redisson program listens it is the turn of
--           Redisson for some ms, else CHOOSE. But when a writer gave it back and some are in line to read, CHOOSE: Redisson's
--           turn is after theirs. A writer that goes on reading calls those in line to read.
--   LEAVE   Who gives up leaves the line and the turn. If it was the last one that was called to a free lock, CHOOSE; if it
--           was the last in line to write and the lock is read, those in line to read are called.
--
-- So if the lock is free and somebody waits: in a turn that counts, whoever was called has it when asking, and in Redisson's a
-- Redisson program; in none, whoever asks has it, or calls others, who are in no line any more. A turn ends by itself, and each
-- CHOOSE makes the lines shorter, so that a free lock is somebody's after as many turns as there are dead in them at most.
-- Sides take turns, and lines are first come, first served, so that each process is served within a number of turns that the
-- lines before it bound.
--
-- Redisson's waiters stand nowhere and heed nothing: they listen on the lock's channel and race. Theirs is the longer way, from
-- the connection to a thread to the next request, so they have a start. Processes of this library that wait listen on that
-- channel as well, and ask when Redisson's programs say something there; what this library says there has a 0 in front, which
-- to Redisson is the same number, and they heed it not. Each of them subscribes besides to a channel that is named as the
-- line of writers is, on which nothing is ever said: so they can be told from Redisson's.
--
-- What a process is told on its channel is in handover.lua: look, soon, wanted and taken.

local grace = 100    -- ms that the turn of one counts who is called and hears it
local unheard = 500  -- ms that the turn of one counts who asks by its timer
local known = 2000   -- ms that it is known for after that which side was last
local start = 5      -- ms that the turn of Redisson's waiters counts

kind = 'rw'

-- redissons reports whether somebody listens who is not of this library. Where one may not ask, nobody does.
local function redissons(publish, channel, writers)
  local ok, more = pcall(function()
    return listening(publish, channel) > listening(publish, writers)
  end)
  return ok and more
end

-- line_up puts a place at the end of its line, unless it is there, and returns how many are before it.
local function line_up(line, place, ms)
  local at = redis.call('lpos', line, place)
  if not at then
    local plain = string.gsub(place, '%+$', '')
    at = redis.call('lpos', line, plain == place and place .. '+' or plain)
    if at then
      redis.call('lset', line, at, place) -- it hears now, or no longer
    else
      at = redis.call('rpush', line, place) - 1
    end
  end
  redis.call('pexpire', line, ms)
  return at
end

-- out takes an owner out of a line and reports whether it stood there.
local function out(line, owner)
  return redis.call('lrem', line, 0, owner) + redis.call('lrem', line, 0, owner .. '+') > 0
end

-- turn_of returns whose turn it is, which side was last, who was called, and for how many milliseconds that counts, 0 if it does not.
local function turn_of(turn)
  local value, left = redis.call('get', turn), redis.call('pttl', turn)
  if value == 'redisson' then
    return value, '', '', math.max(left, 0)
  end
  local whose, last, places = string.match(value or '', '^(%a+) (%a+) ?(.*)$')
  left = left - known
  if not whose or left <= 0 or places == '' and whose ~= 'redisson' then
    left = 0
  end
  return whose, last or '', places or '', left
end

-- assign makes it somebody's turn. A server without memory left, or permission, does without.
local function assign(turn, whose, last, places, ms)
  redis.pcall('set', turn, whose .. ' ' .. last .. ' ' .. places, 'px', known + ms)
end

-- answers takes those out of the turn, if it counts, who match, and reports whether there were any; and if any are left.
local function answers(turn, whose, last, places, left, matches)
  local rest, found = {}, false
  for place in string.gmatch(places, '%S+') do
    if left > 0 and matches(place) then
      found = true
    else
      rest[#rest + 1] = place
    end
  end
  if found then
    assign(turn, whose, last, table.concat(rest, ' '), left)
  end
  return found, left > 0 and #rest > 0
end

-- call tells a place that it is its turn, and returns for how many milliseconds, or nil if it is dead.
local function call(place)
  if tell('look', place) > 0 then
    return grace
  elseif string.sub(place, -1) == '+' then
    return unheard
  end
  return nil
end

-- call_readers makes it the turn of all in line to read. It reports whether there are others than asker, and whether asker is
-- one of them.
local function call_readers(readers, turn, asker)
  local called, ms, mine = {}, 0, false
  for _, place in ipairs(redis.call('lrange', readers, 0, -1)) do
    local owner = string.gsub(place, '%+$', '')
    local its = owner ~= asker and call(place)
    if its then
      called[#called + 1], ms = owner, math.max(ms, its)
    end
    mine = mine or owner == asker
  end
  redis.call('del', readers)
  if mine or #called > 0 then
    assign(turn, 'read', 'read', table.concat(called, ' '), ms)
  end
  return #called > 0, mine
end

-- call_writer makes it the turn of the first in line to write. It returns what call_readers returns.
local function call_writer(writers, turn, asker)
  while true do
    local place = redis.call('lpop', writers)
    if not place then
      return false, false
    end
    local owner = string.gsub(place, '%+$', '')
    local ms = owner ~= asker and call(place)
    if owner == asker or ms then
      assign(turn, 'write', 'write', ms and owner or '', ms or 0)
      return owner ~= asker, owner == asker
    end
  end
end

-- choose says whose turn it is, of those in the lines, where last was the last side. It returns true if it is asker's, false
-- if it is others', nil if nobody waits. Who is next is told to ask when the turn is over, in case nobody comes.
local function choose(readers, writers, turn, last, asker)
  local others, mine = false, false
  for i = 1, 2 do
    if (last == 'write') == (i == 1) then
      others, mine = call_readers(readers, turn, asker)
    else
      others, mine = call_writer(writers, turn, asker)
    end
    if others or mine then
      if others and not mine then
        tell_soon(writers, 0, grace + 1)
        tell_soon(readers, 0, grace + 1)
      end
      return mine
    end
  end
  redis.call('del', turn)
  return nil
end

-- freed deals with a lock that was just given back by the side last.
local function freed(publish, channel, readers, writers, turn, last)
  pcall(function()
    if last == 'write' and redis.call('exists', readers) == 1 or not redissons(publish, channel, writers) then
      choose(readers, writers, turn, last, '')
    elseif redis.call('exists', readers, writers) == 0 then
      redis.call('set', turn, 'redisson', 'px', start)
    else
      assign(turn, 'redisson', last, '', start)
      tell_soon(redis.call('exists', writers) == 1 and writers or readers, 0, start)
    end
  end)
end

-- leave takes an owner that has not the lock out of its line, and out of the turn.
local function leave(lock, line, readers, writers, turn, owner)
  pcall(function()
    local stood = out(line, owner)
    local whose, last, places, left = turn_of(turn)
    local called, more = answers(turn, whose, last, places, left, function(place) return place == owner end)
    if not stood and not called then
      return
    end
    if redis.call('exists', lock) == 0 then
      if not more and whose ~= 'redisson' or left == 0 then
        choose(readers, writers, turn, last, '')
      end
    elseif line == writers and redis.call('hget', lock, 'mode') == 'read' and redis.call('exists', writers) == 0 then
      call_readers(readers, turn, '')
    end
  end)
end

-- refused returns for how many milliseconds an owner, who asks to read or to write, has to wait as THE RULE has it, negative if
-- nobody knows; or nil if it has the lock. One that waits stands in line at its place for ms milliseconds, if the server has
-- memory for it, and the first in line asks soon again; a place of '' does not wait.
local function refused(side, lock, mode, ttl, readers, writers, turn, owner, place, ms)
  local line = side == 'read' and readers or writers
  local function stand(left)
    if place ~= '' then
      local ok, at = pcall(line_up, line, place, ms)
      if not ok and not string.find(type(at) == 'table' and at.err or at, 'OOM') then
        error(at, 0)
      elseif ok and mode and (line == writers or mode == 'write') then
        -- Each who asks says so: a holder that has not heard it may be over, and then its process gives it back.
        for _, holder in ipairs(redis.call('hkeys', lock)) do
          tell('wanted', holder)
        end
      end
      if ok and at == 0 and (left < 0 or left > grace) then
        return grace
      end
    end
    return left
  end
  if mode == 'write' or mode and side == 'write' then
    return stand(ttl)
  end
  if redis.call('exists', readers, writers, turn) == 0 then
    return nil
  end
  local whose, last, places, left = turn_of(turn)
  local process = string.match(owner, '^[^:]+') .. ':'
  if whose == side and answers(turn, whose, last, places, left, function(called) return string.sub(called, 1, #process) == process end) then
    out(line, owner)
    return nil
  end
  if side == 'read' and (mode and left == 0 or left > 0 and whose == 'read') and redis.call('exists', writers) == 0 then
    out(line, owner)
    return nil
  end
  if left > 0 then
    return stand(left)
  elseif mode then
    return stand(ttl)
  end
  stand(0)
  if choose(readers, writers, turn, last, owner) == false then
    return math.max(redis.call('pttl', turn) - known, 1)
  end
  return nil
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
