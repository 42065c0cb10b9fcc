-- Renews a session in the room, whatever it holds there, and sweeps a little.
--@include head
--@include now
local sid, ttl_ms, budget = arg[2], arg[3], tonumber(arg[4])
local s, e = room .. ':s:' .. sid, room .. ':e'
local old = call('HMGET', s, 'x', 'v')
local alive = old[1] and tonumber(old[1]) > now
if alive then
    local till = now + ttl_ms * 1000
    call('HSET', s, 'x', till)
    call('ZADD', e, till, sid)
    local ends = call('ZRANGE', e, 0, 1, 'WITHSCORES')
    local soon = tonumber(ends[ends[1] == sid and 4 or 2] or 0)
    if soon == 0 or soon > now then
        return {tag, 0, now, tonumber(old[2] or 0), call('HLEN', s) - 3, soon, 0}
    end
end
--@include watched
--@include ticket
--@include tell
--@include settle
--@include sweep
--@include soonest
if not alive then
    if old[1] then end_session(sid, budget) end
    return {tag, 1}
end
sweep(budget)
local soon = soonest(sid)
return {tag, 0, now, tonumber(call('HGET', s, 'v') or 0), call('HLEN', s) - 3, soon,
        soon ~= 0 and soon <= now and 1 or 0}
