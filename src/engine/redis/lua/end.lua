-- Removes a session that has no tickets in the room.
--@include head
local s = room .. ':s:' .. arg[2]
local fields = call('HLEN', s)
if fields == 0 or fields > 2 then return {tag, 0, 0} end
call('DEL', s)
call('ZREM', room .. ':e', arg[2])
call('HDEL', room, '\3' .. arg[2])
return {tag, 0, 1}
