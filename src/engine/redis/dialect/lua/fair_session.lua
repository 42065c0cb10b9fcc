-- What the detecting waiters of a session wait for: a name before each.
--@include open
--@include clock
local now = moment + 0
--@include say
--@include names
local all = call('HGETALL', 'rota:s:' .. arg[2])
for i = 1, #all, 2 do
    local name, id = match(all[i], '^%d+ (.*)$'), all[i + 1]
    local ends = call('ZSCORE', of('redisson_lock_timeout', name), id)
    local number, text = match(call('HGET', 'rota:i:' .. name, id) or '', '^(%d+) (.*)$')
    if ends and ends * 1000 > now and number then
        reply[#reply + 1] = name
        show(id, number, ends - math.floor(now / 1000), 0, 0, text)
    end
end
return reply
