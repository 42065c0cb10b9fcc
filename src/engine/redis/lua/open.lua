-- Makes a session in the room. Asked again after a lost reply, it is the same one.
--@include head
--@include now
local sid, ttl_ms, label = arg[2], arg[3], arg[4]
local s = room .. ':s:' .. sid
local x = call('HGET', room, '\3' .. sid)
if x or call('EXISTS', s) == 1 then
    if x and tonumber(x) > now and call('HGET', s, 'l') == label then return {tag, 0, now} end
    return {tag, 5}
end
local till = string.format('%.0f', now + ttl_ms * 1000)
call('ZADD', room .. ':e', till, sid) -- first what may be of another type; and what is in it is swept
call('HSET', s, 'v', 0, 'l', label)
call('HSET', room, '\3' .. sid, till)
-- Who lives shorter than a heartbeat tidies up too.
if not call('ZRANGEBYSCORE', room .. ':e', '-inf', now, 'LIMIT', 0, 1)[1] then return {tag, 0, now} end
--@include watched
--@include ticket
--@include tell
--@include settle
--@include unfold
--@include sweep
sweep(16)
return {tag, 0, now}
