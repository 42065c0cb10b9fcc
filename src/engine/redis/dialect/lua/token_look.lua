-- Who has the key.
--@include open
--@include clock
local now = moment + 0
--@include say
local value = redis.pcall('GET', arg[2])
if type(value) == 'table' then
    show(call('TYPE', arg[2]).ok, 0, call('PTTL', arg[2]), -1, 1)
elseif value then
    local id, number, text = match(value, '^(%x+) (%d+) (.*)$')
    if id and #id == 32 then
        show(id, number, call('PTTL', arg[2]), 0, 1, text)
    else
        show(value, 0, call('PTTL', arg[2]), 0, 1)
    end
end
return reply
