-- Takes all of the keys or none. The value is ID NUMBER TEXT: others compare it as a whole, and never read it.
--@include open
--@include fence
local ttl = arg[2]
if #arg == 6 and call('SET', arg[3], arg[4] .. ' ' .. number .. ' ' .. arg[6], 'NX', 'PX', ttl) then
    call('SET', 'rota:{f}', number)
    return tag .. ' ' .. number
end
local mine, found = {}, 0
for i = 3, #arg, 4 do
    local value = redis.pcall('GET', arg[i])
    if type(value) == 'table' then return {tag, 3, (i - 3) / 4, call('TYPE', arg[i]).ok} end
    if value then
        local id, its = match(value, '^(%S+) (%d+) ')
        if id ~= arg[i + 1] then return {tag, 2, (i - 3) / 4, call('PTTL', arg[i]), value} end
        mine[i], found = its, found + 1
    end
end
if found > 0 and found < (#arg - 2) / 4 then return {tag, 4} end
local reply = {tag, 0}
for i = 3, #arg, 4 do
    if mine[i] then
        call('PEXPIRE', arg[i], ttl)
    else
        call('SET', arg[i], arg[i + 1] .. ' ' .. number .. ' ' .. arg[i + 3], 'PX', ttl)
    end
    reply[#reply + 1] = (mine[i] or number) + 0
end
if found == 0 then call('SET', 'rota:{f}', number) end
return reply
