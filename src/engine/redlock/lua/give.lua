-- Gives a lock back where it is ours.
local old = redis.pcall('GET', KEYS[1])
if type(old) ~= 'string' or string.sub(old, 1, 32) ~= ARGV[2] then return {ARGV[1], 1} end
redis.call('DEL', KEYS[1])
return ARGV[1]
