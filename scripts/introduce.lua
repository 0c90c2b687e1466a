-- Describes a process, for people who look at its locks. No lock depends on it.
--
-- KEYS[1]      the hash of the process
-- ARGV[1]      for how many milliseconds it lives from now on
-- ARGV[i]      a field, for every even i
-- ARGV[i + 1]  its value
--
-- Reply: 1
--
-- Twice: the second run sets the same.
local fields = {}
for i = 2, #ARGV, 2 do
  fields[i - 1], fields[i] = ARGV[i], ARGV[i + 1]
end
-- PEXPIRE is first: without the permission for it nothing is written, which would never expire.
local there = redis.call('pexpire', KEYS[1], ARGV[1])
redis.call('hset', KEYS[1], unpack(fields))
if there == 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
