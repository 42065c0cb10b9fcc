-- What a session has in the room, page by page; a ticket that is not in its line any more is forgotten. The first
-- page renews it: a server that is asked may have missed heartbeats, and it would not live until the next.
--@include head
--@include now
local s = room .. ':s:' .. arg[2]
local x, v = call('HGET', room, '\3' .. arg[2]), call('HGET', s, 'v')
if not x or not v or tonumber(x) <= now then return {tag, 1} end
if arg[3] == '0' and arg[4] then
    local till = string.format('%.0f', now + arg[4] * 1000)
    call('ZREM', room .. ':e', arg[2]) -- needs no memory; once a script wrote, a full server lets it go on
    call('HSET', room, '\3' .. arg[2], till)
    call('ZADD', room .. ':e', till, arg[2])
end
--@include find
local page = call('HSCAN', s, arg[3], 'COUNT', 100)
local reply, list = {tag, 0, tonumber(v), page[1]}, page[2]
for i = 1, #list, 2 do
    local nonce, name = string.match(list[i], '^(%S+) (.+)$')
    local number = list[i + 1]
    if name then
        local n, state = #reply, find_ticket(name, number)
        if state then
            reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = tonumber(number), name, state, nonce
        else
            call('HDEL', s, list[i])
        end
    end
end
return reply
