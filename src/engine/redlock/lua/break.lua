-- Takes a lock away from whoever has it by this number.
local name, call, arg = KEYS[1], redis.call, ARGV
local old = call('TYPE', name).ok == 'string' and call('GET', name) or ''
if string.match(old, '^%x+ rota (%d+) ') ~= arg[2] then return {arg[1], 1} end
call('DEL', name)
return {arg[1], 0}
