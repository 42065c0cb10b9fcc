-- Removes a session that has no tickets in the room; with TILL only if that is its end, so that nobody has
-- renewed it since: an END may arrive late, when the session stands there again.
--@include head
local s, till = room .. ':s:' .. arg[2], arg[3]
local fields = call('HLEN', s)
if fields == 0 or fields > 2 then return {tag, 0, 0} end
if till and call('HGET', room, '\3' .. arg[2]) ~= till then return {tag, 0, 0} end
call('DEL', s)
call('ZREM', room .. ':e', arg[2])
call('HDEL', room, '\3' .. arg[2])
return {tag, 0, 1}
