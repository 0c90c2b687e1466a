--
-- Functions of the scripts that count: of semaphores, permits and latches. This file precedes them and
-- is no step of its own.
--
-- Redisson's counts have a number, and no owners. So a script that is sent again, because its reply
-- was lost, cannot see in the count what the first run did. It reads a sorted set beside the count,
-- one for each client. The set has "<number>=<result>" for each request of the client, scored with its number, and
-- "floor", scored with the number below which the client needs no results any more. A request with a smaller number
-- arrived late, after the client gave it up or sent it again, and does nothing. Redisson does not use
-- the set. It expires some minutes after the last request.

-- outcome returns the result of an earlier run of the request, -9 if the client gave it up, or nil.
local function outcome(requests, number)
  local floor = redis.call('zscore', requests, 'floor')
  if floor and tonumber(number) < tonumber(floor) then
    return -9
  end
  for _, member in ipairs(redis.call('zrangebyscore', requests, number, number)) do
    local result = string.match(member, '=(.*)$')
    if result then
      return tonumber(result)
    end
  end
  return nil
end

-- note stores the result of a request. It begins with a command that Redis permits even when it is
-- out of memory; then Redis permits the other commands of the script too. If note fails, since a permission is missing, it
-- has stored no result, and the set expires: PEXPIRE is the first command, and the result is written last.
local function note(requests, number, floor, keep, result)
  redis.call('pexpire', requests, keep)
  local known = tonumber(redis.call('zscore', requests, 'floor') or nil)
  if known and known < tonumber(floor) then
    redis.call('zadd', requests, floor, 'floor') -- first, so that the set is never empty, and keeps its time to live
  end
  redis.call('zremrangebyscore', requests, '-inf', '(' .. floor)
  if known then
    redis.call('zadd', requests, number, number .. '=' .. result)
  else
    redis.call('zadd', requests, floor, 'floor', number, number .. '=' .. result)
    redis.call('pexpire', requests, keep)
  end
end

-- behind runs a command behind note, and returns its reply. If the command fails, behind removes the result, with commands that
-- note has run and that are permitted: a result without its change would be a wrong answer.
local function behind(requests, number, keep, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    local floor = redis.call('zscore', requests, 'floor')
    redis.call('zremrangebyscore', requests, number, number)
    redis.call('zadd', requests, floor, 'floor')
    redis.call('pexpire', requests, keep)
    redis.call(...) -- fails as before
  end
  return reply
end

-- noted is note, with an undo. If note fails, since a permission is missing, noted calls undo, so that nothing is done
-- whose result is not stored, and returns the error.
local function noted(undo, requests, number, floor, keep, result)
  local ok, err = pcall(note, requests, number, floor, keep, result)
  if ok then
    return nil
  end
  undo()
  return type(err) == 'table' and err or redis.error_reply(err)
end

local function digits(n)
  return string.format('%.0f', n)
end

-- count returns the number that a key holds, or nil if there is none.
local function count(key)
  local value = redis.call('get', key)
  if not value then
    return nil
  end
  if not string.match(value, '^%-?%d+$') then
    error('WRONGTYPE the key holds something that is no count')
  end
  return tonumber(value)
end

-- announce publishes the number of permits to Redisson's waiters and those of other processes. It
-- publishes no number below 1: no waiter could acquire anything, and a negative number makes
-- Redisson's listener fail.
local function announce(publish, channel, value)
  if value > 0 then
    say(publish, channel, digits(value))
  end
end

-- clock returns the time of the server in milliseconds.
local function clock()
  local now = redis.call('time')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end

-- For so many milliseconds taken permits last that do not end before their semaphore: a century, since PERSIST would be one more command
-- to permit.
local century = 3155760000000

-- lasts returns for how many milliseconds a key lasts: -1 for ever, -2 if there is none.
local function lasts(key)
  local left = redis.call('pttl', key)
  return left < century / 2 and left or -1
end

-- keep has taken permits last for as long as their semaphore, and returns what lasts says of them: a program of Redisson, or one that
-- creates the semaphore, may have removed the time to live of the semaphore alone, and permits that end before it never come back. If the semaphore
-- ends before them, they end with it: the next program that acquires one sees to that.
local function keep(permits, leases)
  local ends, left = lasts(leases), lasts(permits)
  if ends >= 0 and (left == -1 or left > ends) then
    redis.call('pexpire', leases, digits(left < 0 and century or left))
    return left
  end
  if left >= 0 then
    return left
  end
  return ends
end

-- adding returns the command that makes permits available which can expire. Known is how many are available, or nil if there is no semaphore:
-- then the command creates one that ends when the taken permits end. Without leases the permits are those of a Semaphore.
local function adding(permits, leases, known, n)
  if known or not leases then
    return 'incrby', permits, digits(n)
  end
  local left = lasts(leases)
  if left < 0 then
    return 'set', permits, digits(n)
  end
  return 'set', permits, digits(n), 'px', digits(math.max(left, 1))
end

-- reclaim makes expired permits available again, all or none: if a permission is missing, nothing is changed. The empty range
-- shows that the last command is permitted, and is a write that Redis permits even when it is out of memory. Without creates, it leaves
-- them where they are while there is no semaphore: the request that creates it knows how many permits there are in all.
local function reclaim(permits, leases, channel, publish, now, creates)
  redis.call('zremrangebyscore', leases, '1', '0')
  local over = redis.call('zcount', leases, '-inf', digits(now))
  if over == 0 then
    return
  end
  local known = count(permits)
  if known or creates then
    redis.call(adding(permits, leases, known, over))
    redis.call('zremrangebyscore', leases, '-inf', digits(now))
    announce(publish, channel, (known or 0) + over)
  end
end

-- each calls f with every id of a text of ids, each of 16 bytes.
local function each(ids, f)
  for i = 1, #ids, 16 do
    f(string.sub(ids, i, i + 15))
  end
end
