-- A line that one plain ticket holds stands in the index itself, as "NUMBER MEMBER"; as "+NUMBER MEMBER",
-- newline, "TILL NUMBER MEMBER" without its last 0, if one plain ticket waits (TILL: when its session ended
-- unless it has beaten since; numbers, TILLs and SIDs are of 16 characters there); and as "*NUMBER MEMBER"
-- when others may wait. Before anything else is done with it, tickets go where tickets are.
local function unfold(name, folded)
    folded = folded or call('HGET', room, name)
    if not folded or folded == '' then return end
    local number, member = string.match(folded, '^[*+]?(%d+) ([^\n]+)')
    local next, waits = string.match(folded, '\n%d+ (%d+) (.+)$')
    -- What may be of another type first, and needs no memory; once a script wrote, a full server lets it go on.
    if next then call('ZREM', room .. ':w:' .. name, '') end
    call('HDEL', room, name)
    if number then call('HSET', room .. ':g:' .. name, number, member) end
    if next then call('ZADD', room .. ':w:' .. name, next, waits .. '0') end
    call('HSET', room, name, '')
end
