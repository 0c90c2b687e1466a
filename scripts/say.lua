--
-- Functions of the scripts that announce something. This file stands in front of them and is no step of its own.
--
-- On the channels of Redisson a message is published as Redisson's own programs do it: by publish, or by spublish in a
-- cluster with sharded channels; or by each of the two, if that is both, where the programs differ.

-- say publishes a message. The announced change is done already, and stays done: if a server does not permit the
-- message, the waiters ask by their timers.
local function say(publish, channel, message)
  if publish == 'both' then
    redis.pcall('spublish', channel, message)
    publish = 'publish'
  end
  redis.pcall(publish, channel, message)
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
