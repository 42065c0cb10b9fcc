-- Who holds; a reader without the key of its life is dead.
--@include open
--@include clock
local now = moment + 0
--@include say
--@include readers
local name = arg[2]
local kind = call('TYPE', name).ok
if kind == 'hash' then
    local plain = not call('HGET', name, 'mode')
    for _, field in ipairs(call('HKEYS', name)) do
        local id, writes = holder(field)
        local left = call('PTTL', id and writes == '' and alive(name, id) .. '1' or name)
        local number, text = match(call('HGET', 'rota:i:' .. name, field) or '', '^(%d+) (.*)$')
        if field ~= 'mode' and (not id or plain) then
            show(field, 0, left, -1, 1)
        elseif field ~= 'mode' and left ~= -2 then
            show(id, number, left, writes == '' and 1 or 0, 1, text)
        end
    end
elseif kind ~= 'none' then
    show(kind, 0, call('PTTL', name), -1, 1)
end
return reply
