-- Who holds, then who waits, in their order.
--@include open
--@include clock
local now = moment + 0
--@include say
--@include owner
--@include names
local name = arg[2]
local info, kind = 'rota:i:' .. name, call('TYPE', name).ok
if kind == 'hash' then
    local fields, left = call('HKEYS', name), call('PTTL', name)
    for f = 1, #fields do
        local number, text = match(call('HGET', info, fields[f]) or '', '^(%d+) (.*)$')
        show(fields[f], number, left, is_owner(fields[f]) and 0 or -1, 1, text)
    end
elseif kind ~= 'none' then
    show(kind, 0, call('PTTL', name), -1, 1)
end
local t = of('redisson_lock_timeout', name)
for _, id in ipairs(call('LRANGE', of('redisson_lock_queue', name), 0, -1)) do
    local ends = call('ZSCORE', t, id)
    if ends and ends * 1000 > now then
        local number, text = match(call('HGET', info, id) or '', '^(%d+) (.*)$')
        show(id, number, ends - math.floor(now / 1000), 0, 0, text)
    end
end
return reply
