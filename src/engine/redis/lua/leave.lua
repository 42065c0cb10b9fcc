-- Takes a ticket out of its line and grants the next.
--@include head
local name, sid, number = arg[2], arg[3], arg[4]
local s = room .. ':s:' .. sid
local folded = call('HGET', room, name)
-- A plain ticket, alone: nobody waits. Nor does anybody observe, whose look would have unfolded it.
if folded and folded ~= '' then
    local its, who, nonce = string.match(folded, '^(%d+) (%S+) (%S+)')
    if who ~= sid or its ~= number and (number ~= '0' or nonce ~= arg[5]) then return {tag, 1} end
    call('HDEL', room, name)
    call('HDEL', s, nonce .. ' ' .. name)
    return #arg == 4 and tag or {tag, 0, 1}
end
local g, w = room .. ':g:' .. name, room .. ':w:' .. name
--@include clock
local watched = call('HGET', room, '\2')
local member = number ~= '0' and call('HGET', g, number)
-- From one to the next, both plain and exclusive: what a hand-over waits for is kept short.
if member and not watched then
    local its, nonce = string.match(member, '^(%S+) (%S+) 0 %d+ %d+ [-d] ')
    local first = call('ZRANGE', w, 0, 0, 'WITHSCORES')
    local kept, heir = string.match(first[1] or '', '^((%S+) %S+ 0 %d+ %d+ [-d] %d+ )0$')
    local x = heir and its == sid and call('HGET', room, '\3' .. heir)
    if x and x > moment then
        call('HDEL', s, nonce .. ' ' .. name) -- first: a server without memory does not refuse it
        call('HSET', g, first[2], kept .. moment)
        call('ZREM', w, first[1])
        call('HDEL', g, number)
        call('PUBLISH', room .. ':p:' .. string.sub(heir, 1, 12), heir .. ' ' ..
             call('HINCRBY', room .. ':s:' .. heir, 'v', 1) .. ' G ' .. first[2] .. ' ' .. name)
        return #arg == 4 and tag or {tag, 0, 1}
    end
end
if number == '0' then
    number = call('HGET', s, arg[5] .. ' ' .. name)
    if not number then return {tag, 1} end
end
member = call('HGET', g, number)
if member and string.match(member, '^%S+') ~= sid then return {tag, 1} end
local now = tonumber(moment)
watched = tonumber(watched or 0)
--@include ticket
--@include tell
--@include settle
if member then
    finish(name, number, member)
else
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
