-- Takes a ticket out of its line, whosever it is; or all durable ones of a mode.
--@include head
--@include now
--@include watched
--@include ticket
--@include tell
--@include settle
--@include unfold
local name, number, mode = arg[2], arg[3], arg[4]
local g, w, count, dead = room .. ':g:' .. name, room .. ':w:' .. name, 0, false

unfold(name)

local function consider(its, member, granted)
    local sid, _, its_mode, _, _, flags, _, _, chan = match(member, MEMBER)
    local durable = sid and find(flags, 'D', 1, true)
    if not sid or over(name, its, sid, flags) then
        dead = true
    elseif number ~= '0' or durable and its_mode == mode then
        drop(name, its, member, granted)
        if not durable then push('L', name, its, sid, flags, chan) end
        count = count + 1
    end
end

if number == '0' then
    local list = call('HGETALL', g)
    for i = 1, #list, 2 do consider(list[i], list[i + 1], true) end
    list = call('ZRANGE', w, 0, -1, 'WITHSCORES')
    for i = 1, #list, 2 do consider(list[i + 1], list[i], false) end
else
    local member = call('HGET', g, number)
    if member then consider(number, member, true) end
    member = call('ZRANGEBYSCORE', w, number, number)[1]
    if member then consider(number, member, false) end
end
if dead then purge(name, 1000, true) end
if count > 0 or dead then
    settle(name)
    tell_observers(name)
end
if count == 0 then return {tag, 1} end
return {tag, 0, count}
