-- Makes a session in the room. Asked again after a lost reply, it is the same one.
--@include head
--@include now
local sid, ttl_ms, label = arg[2], arg[3], arg[4]
local s = room .. ':s:' .. sid
local old = call('HMGET', s, 'x', 'l')
if old[1] then
    if tonumber(old[1]) > now and old[2] == label then return {tag, 0, now} end
    return {tag, 5}
end
local till = now + ttl_ms * 1000
call('HSET', s, 'x', till, 'v', 0, 'l', label)
call('ZADD', room .. ':e', till, sid)
return {tag, 0, now}
