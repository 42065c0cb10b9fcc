-- Takes the key from whoever has it under this number.
--@include open
local value = redis.pcall('GET', arg[2])
if type(value) ~= 'string' or match(value, '^%x+ (%d+) ') ~= arg[3] then return {tag, 1} end
call('DEL', arg[2])
return {tag, 0, 1}
