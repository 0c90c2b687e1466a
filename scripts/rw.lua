--
-- Functions of the scripts of the read-write lock. This file stands behind handover.lua and in front of them, and
-- is no step of its own.
--
-- The lock is Redisson's: a hash with the field mode, which is read or write, a field "<uuid>:<n>" with a count
-- for each reader, and "<uuid>:<n>:write" for the writer. Each hold of a reader has a key beside the hash,
-- "<prefix><uuid>:<n>:rwlock_timeout:<i>" with i from 1 to the count, which lives as long as that hold's
-- lease; the hash lives as long as the longest of them, or as the writer's. A process of this library
-- counts its holds itself: its counts are 1.
--
-- Three more keys are this library's, and Redisson does not use them: two queues of waiting processes, one of readers and one
-- of writers, and the turn. A process stands in a queue as its owner, "<uuid>:<n>" or "<uuid>:<n>:write"; with a + behind it,
-- the process gets no messages, and asks by its timer alone. Waiters ask again and again; a queue that no waiter asks for
-- within 2 seconds is dropped, so that dead processes keep nobody out for longer.
--
-- The turn is a string "<whose> <last> <place> <place> ...": whose is read, write or redisson; last is the side of this library,
-- read or write, that had the last turn; the places are those of the waiters that were called and have not come. The turn counts
-- while more than 2 seconds of its time to live are left: after that it only records last. "redisson" alone counts until it expires.
--
-- THE RULE. At any time at most one side has the turn, so that no two can yield to each other.
--
--   the lock    the turn         a reader that asks                 a writer that asks
--   written     any              queues                             queues
--   read        none             has it if no writer queues,        queues
--                                else queues
--   read        read             likewise; and a called reader      queues
--                                has it
--   read        write, redisson  queues                             queues
--   free        read             has it if it was called, or if     queues
--                                no writer queues
--   free        write            queues                             has it if it was called, else queues
--   free        redisson         queues                             queues
--   free        none             CHOOSE, and has it if that calls   CHOOSE, and has it if that calls nobody else
--                                nobody else
--
--   CHOOSE  The side that did not have the last turn is first. Of readers, all in the queue are called; of writers, the first one.
--           A called waiter is out of the queue. A waiter that listens gets the message look. A waiter with a + is called
--           although it does not listen; any other that does not listen is dead. If no waiter of a side is left, the other side is
--           called. The turn counts for 100 ms, or 500 ms if it called a waiter that does not listen.
--   FREED   When this library released the lock, or took it by force: if a Redisson program listens, Redisson has the turn for
--           some ms, else CHOOSE. But when a writer released it and readers queue, CHOOSE: Redisson's turn is after
--           theirs. A writer that continues as a reader calls the readers in the queue.
--   LEAVE   A waiter that gives up leaves the queue and the turn. If it was the last one that was called to a free lock, CHOOSE;
--           if it was the last writer in the queue and the lock is read, the readers in the queue are called.
--
-- So, if the lock is free and there are waiters: in a turn that counts, a called waiter gets the lock when it asks, and in
-- Redisson's turn a Redisson program gets it. Without a turn, a process that asks gets the lock, or calls others, which then are in no
-- queue any more. A turn ends by itself, and each CHOOSE makes the queues shorter, so that a free lock gets a holder after at most as
-- many turns as the queues have dead waiters. Sides take turns, and queues are first come, first served: the queues ahead of a process
-- bound the number of turns until it is served.
--
-- Redisson's waiters are in no queue and follow no turn: they listen on the lock's channel and race. Their way is longer, from
-- the connection to a thread to the next request, so they have a start. Waiting processes of this library listen on that
-- channel as well, and ask when Redisson's programs publish there; the messages of this library have a leading 0. To Redisson
-- that is the same number, and this library ignores it. Each waiter of this library also subscribes to a channel with the name of the
-- writers' queue, which has no messages: this tells it from Redisson's waiters.
--
-- handover.lua describes the messages to a process: look, soon, wanted and taken.

local grace = 100    -- ms for which a turn counts whose waiters listen
local unheard = 500  -- ms for which a turn counts with a waiter that asks by its timer
local known = 2000   -- ms for which the last side is stored after that
local start = 5      -- ms for which the turn of Redisson's waiters counts

kind = 'rw'

-- redissons reports whether a listener is not of this library. Without the permission to ask, it reports false.
local function redissons(publish, channel, writers)
  local ok, more = pcall(function()
    return listening(publish, channel) > listening(publish, writers)
  end)
  return ok and more
end

-- line_up puts a place at the end of its queue, unless it is there, and returns how many are before
-- it.
local function line_up(line, place, ms)
  local at = redis.call('lpos', line, place)
  if not at then
    local plain = string.gsub(place, '%+$', '')
    at = redis.call('lpos', line, plain == place and place .. '+' or plain)
    if at then
      redis.call('lset', line, at, place) -- it listens now, or no longer
    else
      at = redis.call('rpush', line, place) - 1
      if at == 0 then
        expire(line, ms, 'lrem', line, '0', place)
        return 0
      end
    end
  end
  redis.call('pexpire', line, ms)
  return at
end

-- out removes an owner from a queue and reports whether it was there.
local function out(line, owner)
  return redis.call('lrem', line, '0', owner) + redis.call('lrem', line, '0', owner .. '+') > 0
end

-- turn_of returns the side of the turn, the last side, the called places, and for how many milliseconds the turn
-- counts, 0 if it does not.
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

-- assign sets the turn. A server without memory left, or without permission, has no turn.
local function assign(turn, whose, last, places, ms)
  redis.pcall('set', turn, whose .. ' ' .. last .. ' ' .. places, 'px', known + ms)
end

-- answers removes the places that match from the turn, if it counts, and reports whether there were any, and whether
-- others are left.
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

-- call tells a place that it is its turn, and returns for how many milliseconds, or nil if it is
-- dead.
local function call(place)
  if tell('look', place) > 0 then
    return grace
  elseif string.sub(place, -1) == '+' then
    return unheard
  end
  return nil
end

-- call_readers gives the turn to all readers in the queue. It reports whether there are others than asker, and whether
-- asker is one of them.
local function call_readers(readers, turn, asker)
  local called, ms, mine = {}, 0, false
  for _, place in ipairs(redis.call('lrange', readers, '0', '-1')) do
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

-- call_writer gives the turn to the first writer in the queue. It returns the same as call_readers.
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

-- choose gives the turn to waiters in the queues, where last was the last side. It returns true if the turn is asker's,
-- false if it is others', nil without waiters. It tells the next waiter to ask when the turn is over, in case no called
-- waiter comes.
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

-- freed handles a lock that the side last has just released.
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

-- leave removes an owner that does not hold the lock from its queue, and from the turn.
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

-- refused returns for how many milliseconds an owner, a reader or a writer, has to wait by THE RULE, negative if that
-- is unknown; or nil if it has the lock. A waiter keeps its place in the queue for ms milliseconds, if the server has
-- memory for it, and the first in the queue asks again soon; an owner with the place '' does not wait.
local function refused(side, lock, mode, ttl, readers, writers, turn, owner, place, ms)
  local line = side == 'read' and readers or writers
  local function stand(left)
    if place ~= '' then
      local ok, at = pcall(line_up, line, place, ms)
      if not ok and not string.find(type(at) == 'table' and at.err or at, 'OOM') then
        error(at, 0)
      elseif ok and mode and (line == writers or mode == 'write') then
        -- Each waiter that asks notifies the holders: a holder that did not get the message may be over, and then its
        -- process releases the lock.
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

-- has returns 1 if the lock has that field, 0 if not or if it is no hash, or an error that does not
-- tell whether it has.
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

-- longest returns for how many milliseconds the last of the readers holds the lock; 0 if there is
-- none.
local function longest(lock, prefix)
  local most = 0
  holds(lock, prefix, function(_, key)
    most = math.max(most, redis.call('pttl', key))
  end)
  return most
end
--
