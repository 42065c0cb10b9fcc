-- Compare and delete.
--@include open
local value = redis.pcall('GET', arg[2])
if type(value) ~= 'string' or match(value, '^%S+') ~= arg[3] then return {tag, 1} end
call('DEL', arg[2])
return tag
