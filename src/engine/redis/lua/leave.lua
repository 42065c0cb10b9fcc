-- Takes a ticket out of its line and grants the next.
--@include head
local name, sid, number = arg[2], arg[3], arg[4]
local s = room .. ':s:' .. sid
local marks = call('HMGET', room, '\2', name)
local folded = marks[2]
-- A plain ticket, alone: nobody waits or observes.
if folded and folded ~= '' and not marks[1] then
    local its, who, nonce = string.match(folded, '^(%d+) (%S+) (%S+)')
    if who ~= sid or its ~= number and (number ~= '0' or nonce ~= arg[5]) then return {tag, 1} end
    call('HDEL', room, name)
    call('HDEL', s, nonce .. ' ' .. name)
    return {tag, 0, 1}
end
--@include unfold
unfold(name, folded)
if number == '0' then
    number = call('HGET', s, arg[5] .. ' ' .. name)
    if not number then return {tag, 1} end
end
local member = call('HGET', room .. ':g:' .. name, number)
if member and string.match(member, '^%S+') ~= sid then return {tag, 1} end
--@include now
local watched = tonumber(marks[1] or 0)
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
    drop(name, number, waiting)
end
settle(name)
tell_observers(name)
return {tag, 0, member and 1 or 0}
