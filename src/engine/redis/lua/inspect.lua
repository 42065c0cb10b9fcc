-- All tickets of a line, front first.
--@include head
--@include now
--@include ticket
--@include label
--@include show
--@include unfold
local reply, name = {tag, 0, now}, arg[2]
unfold(name)
local g = room .. ':g:' .. name
local keys = call('HKEYS', g)
table.sort(keys, function(a, b) return tonumber(a) < tonumber(b) end)
for _, number in ipairs(keys) do show(reply, name, number, call('HGET', g, number), 1) end
local list = call('ZRANGE', room .. ':w:' .. name, 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do show(reply, name, list[i + 1], list[i], 0) end
return reply
