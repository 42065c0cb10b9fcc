-- Takes out who holds under this number.
--@include open
--@include names
--@include readers
--@include rw_out
local fields = call('TYPE', arg[2]).ok == 'hash' and call('HKEYS', arg[2]) or {}
for f = 1, #fields do
    local id = holder(fields[f])
    if id and match(call('HGET', 'rota:i:' .. arg[2], fields[f]) or '', '^%d+') == arg[3] then
        out(arg[2], id)
        return {tag, 0, 1}
    end
end
return {tag, 1}
