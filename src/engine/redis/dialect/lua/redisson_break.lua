-- Takes the lock from whoever has it under this number, and tells who waits.
--@include open
--@include names
local name = arg[2]
local fields = call('TYPE', name).ok == 'hash' and call('HKEYS', name) or {}
for f = 1, #fields do
    if match(call('HGET', 'rota:i:' .. name, fields[f]) or '', '^%d+') == arg[3] then
        call('DEL', name)
        call('HDEL', 'rota:i:' .. name, fields[f])
        call('PUBLISH', of('redisson_lock__channel', name), '0')
        return {tag, 0, 1}
    end
end
return {tag, 1}
