-- All tickets of a session in this room.
--@include head
--@include now
--@include ticket
--@include label
--@include show
--@include unfold
local reply = {tag, 0, now}
local list = call('HGETALL', room .. ':s:' .. arg[2])
for i = 1, #list, 2 do
    local name, number = match(list[i], '^%S+ (.+)$'), list[i + 1]
    if name then
        unfold(name)
        local member = call('HGET', room .. ':g:' .. name, number)
        local granted = member and 1 or 0
        member = member or call('ZRANGEBYSCORE', room .. ':w:' .. name, number, number)[1]
        if member then show(reply, name, number, member, granted) end
    end
end
return reply
