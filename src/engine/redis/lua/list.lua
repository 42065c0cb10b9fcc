-- The lines of the room, page by page; one without tickets leaves the index.
--@include head
local page = call('ZSCAN', room, arg[2], 'COUNT', 100)
local reply, list = {tag, 0, page[1]}, page[2]
for i = 1, #list, 2 do
    local name = list[i]
    if name ~= '\1' and name ~= '\2' then
        local granted = call('ZCARD', room .. ':g:' .. name)
        local waiting = call('ZCARD', room .. ':w:' .. name)
        local n = #reply
        if granted + waiting > 0 then
            reply[n + 1], reply[n + 2], reply[n + 3] = name, granted, waiting
        else
            call('ZREM', room, name)
        end
    end
end
return reply
