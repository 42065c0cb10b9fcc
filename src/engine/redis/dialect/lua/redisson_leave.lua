-- The last hold goes, and who waits is told.
--@include open
--@include names
local name, id = arg[2], arg[3]
if call('TYPE', name).ok ~= 'hash' or call('HEXISTS', name, id) == 0 then return {tag, 1} end
call('DEL', name)
call('HDEL', 'rota:i:' .. name, id)
call('PUBLISH', of('redisson_lock__channel', name), '0')
return tag
