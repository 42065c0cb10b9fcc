-- Takes a ticket out of its line, whosever it is; or all durable ones of a mode.
--@include head
--@include now
--@include watched
--@include ticket
--@include tell
--@include settle
local name, number, mode = arg[2], arg[3], arg[4]
local count, dead = 0, false
for _, key in ipairs({room .. ':g:' .. name, room .. ':w:' .. name}) do
    local list
    if number == '0' then
        list = call('ZRANGE', key, 0, -1, 'WITHSCORES')
    else
        list = call('ZRANGEBYSCORE', key, number, number, 'WITHSCORES')
    end
    for i = 1, #list, 2 do
        local sid, _, its, _, _, flags, _, _, chan = match(list[i], MEMBER)
        local durable = sid and find(flags, 'D', 1, true)
        if not sid then
            drop(key, name, list[i + 1], list[i])
        elseif number ~= '0' and over(name, number, sid, flags) then
            dead = true
        elseif number ~= '0' or durable and its == mode then
            drop(key, name, list[i + 1], list[i])
            if not durable then push('L', name, number, sid, flags, chan) end
            count = count + 1
        end
    end
end
if dead then purge(name, 100, true) end
if count > 0 or dead then
    settle(name)
    tell_observers(name)
end
if count == 0 then return {tag, 1} end
return {tag, 0, count}
