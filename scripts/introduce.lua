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
for i = 2, #ARGV, 2 do
  redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1
