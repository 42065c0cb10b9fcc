-- Each that is still ours lives on: what Redisson's watchdog does.
--@include open
local reply = {tag, 0}
for i = 3, #arg, 3 do
    local name = arg[i]
    local ours = call('TYPE', name).ok == 'hash' and call('HEXISTS', name, arg[i + 1]) == 1
    if ours then
        call('PEXPIRE', name, arg[2])
        call('PEXPIRE', 'rota:i:' .. name, arg[2])
    end
    reply[#reply + 1] = ours and 1 or 0
end
return reply
