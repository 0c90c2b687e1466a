--
-- Functions of the scripts that announce something. This file stands in front of them and is no step of its own.
--
-- On the channels of Redisson a message is published as Redisson's own programs do it: by publish, or by spublish in a
-- cluster with sharded channels; or by each of the two, if that is both, where the programs differ.

-- say publishes a message. The announced change is done already, and stays done: if a server does not permit the
-- message, the waiters ask by their timers. It returns how many clients the message reached, subscribers of patterns
-- included.
local function say(publish, channel, message)
  local function reached(command)
    local n = redis.pcall(command, channel, message)
    return type(n) == 'number' and n or 0
  end
  if publish == 'both' then
    return reached('spublish') + reached('publish')
  end
  return reached(publish)
end

-- listening returns how many clients have subscribed to a channel of Redisson.
local function listening(publish, channel)
  local n = 0
  if publish ~= 'publish' then
    n = redis.call('pubsub', 'shardnumsub', channel)[2]
  end
  if publish ~= 'spublish' then
    n = n + redis.call('pubsub', 'numsub', channel)[2]
  end
  return n
end
