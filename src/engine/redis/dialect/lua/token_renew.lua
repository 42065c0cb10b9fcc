-- Each that is still ours lives on.
--@include open
local reply = {tag, 0}
for i = 3, #arg, 3 do
    local value = redis.pcall('GET', arg[i])
    local ours = type(value) == 'string' and match(value, '^%S+') == arg[i + 1]
    if ours then call('PEXPIRE', arg[i], arg[2]) end
    reply[#reply + 1] = ours and 1 or 0
end
return reply
