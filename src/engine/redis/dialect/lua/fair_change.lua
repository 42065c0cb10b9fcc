-- What a holder says to observers.
--@include open
local name, id, ttl = arg[2], arg[3], arg[4]
local number = match(call('HGET', 'rota:i:' .. name, id) or '', '^%d+')
if not number or call('TYPE', name).ok ~= 'hash' or call('HEXISTS', name, id) == 0 then return {tag, 1} end
call('PEXPIRE', name, ttl)
call('HSET', 'rota:i:' .. name, id, number .. ' ' .. arg[5])
call('PEXPIRE', 'rota:i:' .. name, ttl)
return {tag, 0, 1}
