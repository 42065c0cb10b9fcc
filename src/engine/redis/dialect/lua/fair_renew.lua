-- Who holds lives on, and so does who waits.
--@include open
--@include clock
local now = moment + 0
--@include names
--@include queue
local reply, ttl = {tag, 0}, arg[2]
for i = 3, #arg, 3 do
    local name, id = arg[i], arg[i + 1]
    local _, t = queue_of(name)
    local holds = call('TYPE', name).ok == 'hash' and call('HEXISTS', name, id) == 1
    local ends = not holds and call('ZSCORE', t, id)
    if holds then call('PEXPIRE', name, ttl) end
    if ends and ends + 0 < now / 1000 + ttl then call('ZADD', t, math.floor(now / 1000) + ttl, id) end
    if holds or ends then
        call('PEXPIRE', 'rota:i:' .. name, ttl)
        call('PEXPIRE', session_of(id), ttl)
    end
    reply[#reply + 1] = (holds or ends) and 1 or 0
end
return reply
