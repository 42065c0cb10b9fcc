-- Renews a session in the room, whatever it holds there, and sweeps a little.
--@include head
--@include now
local sid, ttl_ms, budget = arg[2], arg[3], tonumber(arg[4])
local s, e = room .. ':s:' .. sid, room .. ':e'
local x, v = call('HGET', room, '\3' .. sid), call('HGET', s, 'v')
local alive = x and v and tonumber(x) > now
if alive then
    local till = string.format('%.0f', now + ttl_ms * 1000)
    call('ZREM', e, sid) -- needs no memory; once a script wrote, a full server lets it go on
    call('HSET', room, '\3' .. sid, till)
    call('ZADD', e, till, sid)
    local ends = call('ZRANGE', e, 0, 1, 'WITHSCORES')
    local soon = tonumber(ends[ends[1] == sid and 4 or 2] or 0)
    if soon == 0 or soon > now then
        return {tag, 0, now, tonumber(v), call('HLEN', s) - 2, soon, 0}
    end
end
--@include watched
--@include unfold
--@include ticket
--@include tell
--@include settle
--@include sweep
--@include soonest
if not alive then
    if x or v then end_session(sid, budget) end
    return {tag, 1}
end
sweep(budget)
local soon = soonest(sid)
return {tag, 0, now, tonumber(call('HGET', s, 'v')), call('HLEN', s) - 2, soon,
        soon ~= 0 and soon <= now and 1 or 0}
