-- A writer is gone. Redisson wakes by '1' all who sleep already, and forgets it where nobody does: who has listened and is
-- about to sleep would do so for the lock's whole time. '0' is kept for the next who comes.
local function tell_all(channel)
    call('PUBLISH', channel, '1')
    call('PUBLISH', channel, '0')
end
-- Takes ID out of NAME, as Redisson's unlock does: false, it was not there. Tells who waits when nobody is left, or readers may.
local function out(name, id)
    local channel = of('redisson_rwlock', name)
    local info = 'rota:i:' .. name
    if call('TYPE', name).ok ~= 'hash' then return false end
    if call('HDEL', name, id .. ':write') == 1 then
        call('HDEL', info, id .. ':write')
        if call('HLEN', name) == 1 then
            call('DEL', name)
        else
            call('HSET', name, 'mode', 'read')
        end
        tell_all(channel)
        return true
    end
    if call('HDEL', name, id) == 0 then return false end
    call('HDEL', info, id)
    call('DEL', alive(name, id) .. '1')
    local most, fields = -3, call('HKEYS', name)
    for f = 1, #fields do
        local times = tonumber(call('HGET', name, fields[f])) or 0
        for n = 1, times do most = math.max(most, call('PTTL', alive(name, fields[f]) .. n)) end
    end
    if most > 0 then
        call('PEXPIRE', name, most)
    elseif call('HGET', name, 'mode') ~= 'write' or #fields == 1 then
        call('DEL', name)
        call('PUBLISH', channel, '0')
    end
    return true
end
