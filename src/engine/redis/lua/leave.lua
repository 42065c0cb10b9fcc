-- Takes a ticket out of its line and grants the next.
--@include head
local name, sid, number = arg[2], arg[3], arg[4]
local g, s = room .. ':g:' .. name, room .. ':s:' .. sid
if number == '0' then
    number = call('HGET', s, arg[5] .. ' ' .. name)
    if not number then return {tag, 1} end
end
local member = call('ZRANGEBYSCORE', g, number, number)[1]
local scores = call('ZMSCORE', room, '\2', name)
if member then
    local its, nonce, mode, flags = string.match(member, '^(%S+) (%S+) (%d) %d+ %d+ (%S+)')
    if its ~= sid then return {tag, 1} end
    -- Alone: exclusive, and nobody came after it.
    if mode == '0' and scores[2] == number and flags == '-' and not scores[1] then
        call('ZREM', g, member)
        call('HDEL', s, nonce .. ' ' .. name)
        call('ZREM', room, name)
        return {tag, 0, 1}
    end
end
--@include now
local watched = tonumber(scores[1] or 0)
--@include ticket
--@include tell
--@include settle
if member then
    finish(name, number, member)
else
    local w = room .. ':w:' .. name
    local waiting = call('ZRANGEBYSCORE', w, number, number)[1]
    if not waiting or match(waiting, '^%S+') ~= sid then
        if arg[4] == '0' then call('HDEL', s, arg[5] .. ' ' .. name) end
        return {tag, 1}
    end
    drop(w, name, number, waiting)
end
settle(name)
tell_observers(name)
return {tag, 0, member and 1 or 0}
