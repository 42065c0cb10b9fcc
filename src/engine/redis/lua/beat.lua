-- Renews a session in the room, looks at some of its tickets, in turn, and sweeps a little.
--@include head
--@include now
local sid, ttl_ms, budget, cursor = arg[2], arg[3], tonumber(arg[4]), arg[5] or '0'
local s, e = room .. ':s:' .. sid, room .. ':e'
local x, v = call('HGET', room, '\3' .. sid), call('HGET', s, 'v')
local alive, stuck = x and v and tonumber(x) > now, {}
--@include look
if alive then
    local till = string.format('%.0f', now + ttl_ms * 1000)
    call('ZREM', e, sid) -- needs no memory; once a script wrote, a full server lets it go on
    call('HSET', room, '\3' .. sid, till)
    call('ZADD', e, till, sid)
    local tickets = call('HLEN', s) - 2
    if tickets > 0 then tickets = tickets - look(tickets) else cursor = '0' end
    local ends = call('ZRANGE', e, 0, 1, 'WITHSCORES')
    local soon = tonumber(ends[ends[1] == sid and 4 or 2] or 0)
    if not stuck[1] and (soon == 0 or soon > now) then
        return {tag, 0, now, tonumber(v), tickets, soon, 0, cursor}
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
for _, name in ipairs(stuck) do
    unfold(name)
    local found = purge(name, 8, false)
    local first = call('ZRANGE', room .. ':w:' .. name, 0, 0)[1]
    if found or first and not find(first, '^%S+ %S+ 4') and call('HLEN', room .. ':g:' .. name) == 0 then
        local _, changed = settle(name)
        if found or changed then tell_observers(name) end
    end
end
sweep(budget)
local soon = soonest(sid)
return {tag, 0, now, tonumber(call('HGET', s, 'v')), call('HLEN', s) - 2, soon,
        soon ~= 0 and soon <= now and 1 or 0, cursor}
