-- The lines of the room, page by page; one without tickets leaves the index.
--@include head
local page = call('HSCAN', room, arg[2], 'COUNT', 100)
local reply, list = {tag, 0, page[1]}, page[2]
for i = 1, #list, 2 do
    local name, granted, waiting, n = list[i], 1, 0, #reply
    if string.byte(name) > 3 then -- our own marks are below
        local folded = list[i + 1]
        if folded == '' then granted = call('HLEN', room .. ':g:' .. name) end
        if folded == '' or string.byte(folded) == 42 then -- a star: others wait
            waiting = call('ZCARD', room .. ':w:' .. name)
        elseif string.byte(folded) == 43 then -- a plus: one waits
            waiting = 1
        end
        if granted + waiting > 0 then
            reply[n + 1], reply[n + 2], reply[n + 3] = name, granted, waiting
        else
            call('HDEL', room, name)
        end
    end
end
return reply
