-- A line that one plain ticket holds stands in the index itself, as "NUMBER MEMBER", and as "*NUMBER
-- MEMBER" when others may wait; before anything else is done with it, the ticket goes where tickets are.
local function unfold(name, folded)
    folded = folded or call('HGET', room, name)
    if not folded or folded == '' then return end
    local number, member = string.match(folded, '^%*?(%d+) (.+)$')
    call('HDEL', room, name) -- needs no memory; once a script wrote, a full server lets it go on
    if number then call('HSET', room .. ':g:' .. name, number, member) end
    call('HSET', room, name, '')
end
