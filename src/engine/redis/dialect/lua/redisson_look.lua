-- Who holds. What is not of that shape is shown as one that holds.
--@include open
--@include clock
local now = moment + 0
--@include say
--@include owner
local name = arg[2]
local kind = call('TYPE', name).ok
if kind == 'hash' then
    local fields, left = call('HKEYS', name), call('PTTL', name)
    for f = 1, #fields do
        local number, text = match(call('HGET', 'rota:i:' .. name, fields[f]) or '', '^(%d+) (.*)$')
        show(fields[f], number, left, is_owner(fields[f]) and 0 or -1, 1, text)
    end
elseif kind ~= 'none' then
    show(kind, 0, call('PTTL', name), -1, 1)
end
return reply
