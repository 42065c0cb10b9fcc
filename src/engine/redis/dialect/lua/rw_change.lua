-- The writer becomes a reader, and readers who wait are told.
--@include open
--@include names
--@include readers
--@include rw_out
local name, id, ttl = arg[2], arg[3], arg[4]
local info = 'rota:i:' .. name
if call('TYPE', name).ok ~= 'hash' then return {tag, 1} end
if call('HEXISTS', name, id) == 1 then return {tag, 0, 1} end
if call('HEXISTS', name, id .. ':write') == 0 then return {tag, 1} end
call('HSET', name, 'mode', 'read', id, '1')
call('HDEL', name, id .. ':write')
call('SET', alive(name, id) .. '1', '1', 'PX', ttl)
call('PEXPIRE', name, ttl)
local text = call('HGET', info, id .. ':write')
if text then
    call('HDEL', info, id .. ':write')
    call('HSET', info, id, text)
    call('PEXPIRE', info, ttl)
end
tell_all(of('redisson_rwlock', name))
return {tag, 0, 1}
