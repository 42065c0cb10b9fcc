-- Each that is still ours lives on, readers with the key of their own.
--@include open
--@include readers
local reply, ttl = {tag, 0}, arg[2]
for i = 3, #arg, 3 do
    local name, id = arg[i], arg[i + 1]
    local hash = call('TYPE', name).ok == 'hash'
    local writes = hash and call('HEXISTS', name, id .. ':write') == 1
    local reads = hash and not writes and call('HEXISTS', name, id) == 1
    if writes or reads then
        call('PEXPIRE', name, math.max(call('PTTL', name), ttl))
        call('PEXPIRE', 'rota:i:' .. name, ttl)
    end
    if reads then call('SET', alive(name, id) .. '1', '1', 'PX', ttl) end
    reply[#reply + 1] = (writes or reads) and 1 or 0
end
return reply
