-- All tickets of a line, front first.
--@include head
--@include now
--@include ticket
--@include label
--@include show
local reply, name = {tag, 0, now}, arg[2]
local list = call('ZRANGE', room .. ':g:' .. name, 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do show(reply, name, list[i + 1], list[i], 1) end
list = call('ZRANGE', room .. ':w:' .. name, 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do show(reply, name, list[i + 1], list[i], 0) end
return reply
