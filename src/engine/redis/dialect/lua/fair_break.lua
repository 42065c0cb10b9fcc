-- Takes out who holds or waits under this number. Who waited is told, and finds that it was broken.
--@include open
--@include clock
local now = moment + 0
--@include names
--@include queue
local name, number = arg[2], arg[3]
local info = 'rota:i:' .. name
for _, id in ipairs(call('HKEYS', info)) do
    if match(call('HGET', info, id), '^%d+') == number then
        if call('TYPE', name).ok == 'hash' and call('HEXISTS', name, id) == 1 then
            call('DEL', name)
            call('HDEL', info, id)
        elseif unqueue(name, id) then
            call('HSET', info, id, '0 -')
            call('HDEL', session_of(id), number .. ' ' .. name)
            call('PUBLISH', of('redisson_lock__channel', name) .. ':' .. id, '0')
        else
            return {tag, 1}
        end
        if call('EXISTS', name) == 0 then tell_next(name) end
        return {tag, 0, 1}
    end
end
return {tag, 1}
