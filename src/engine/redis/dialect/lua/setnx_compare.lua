-- Whether the key is ours: that it still is when it is deleted nobody knows.
--@include open
local value = redis.pcall('GET', arg[2])
if type(value) ~= 'string' or match(value, '^%S+') ~= arg[3] then return {tag, 1} end
return {tag, 0}
