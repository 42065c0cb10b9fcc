-- Renews what is ours: a session's heartbeat.
local call, arg = redis.call, ARGV
local marks = ''
for i = 3, #arg, 2 do
    local name = arg[i + 1]
    local old = call('TYPE', name).ok == 'string' and call('GET', name) or ''
    local ours = string.sub(old, 1, 32) == arg[i]
    if ours then call('PEXPIRE', name, arg[2]) end
    marks = marks .. (ours and '1' or '0')
end
local now = call('TIME')
return {arg[1], 0, marks, now[1] * 1000000 + now[2]}
