-- Functions that the scripts share that take a lock by force. This file is no step of its own: it stands behind the other shared
-- functions.

-- holder_in returns the holder that a field of a lock, or an argument, names. A writer of a read-write lock that also reads has two
-- fields.
local function holder_in(field)
  return (string.gsub(field, ':write$', ''))
end

-- held_by reports whether the arguments from number i on name all holders of the lock and nobody else. It is true if there are
-- no such arguments.
local function held_by(lock, i)
  if #ARGV < i then
    return true
  end
  local named, found = {}, {}
  for n = i, #ARGV do
    named[holder_in(ARGV[n])] = true
  end
  for _, field in ipairs(redis.call('hkeys', lock)) do
    local holder = holder_in(field)
    if field ~= 'mode' and not named[holder] then
      return false
    end
    found[holder] = true
  end
  for holder in pairs(named) do
    if not found[holder] then
      return false
    end
  end
  return true
end
