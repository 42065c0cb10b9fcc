-- Keys may be gone that nobody of ours took away: deleted by others, or evicted. So every beat looks at a page of the
-- session's tickets. One that is in no line is forgotten, and its client finds that the count is another.
-- The lines where one waits and nobody who lives is seen to hold are `stuck`. Answers how many were forgotten.
--@include find
local function look(tickets)
    local page, forgotten = call('HSCAN', s, cursor, 'COUNT', 64), 0
    local list, from, to = page[2], 0, #page[2] / 2
    if to > 128 and to == tickets + 2 then -- a small hash comes as a whole, the oldest first: the cursor counts them
        from = cursor + 0 < to and cursor + 0 or 0
        to = math.min(from + 128, to)
    end
    for k = from, to - 1 do
        local i = 2 * k + 1
        local name = string.match(list[i], '^%S+ (.+)$')
        local state, folded
        if name then state, folded = find_ticket(name, list[i + 1]) end
        if name and not state then
            forgotten = forgotten + call('HDEL', s, list[i])
        elseif state == 0 then
            local who = string.match(folded, '^[*+]?%d+ (%S+)')
            local till = who and call('HGET', room, '\3' .. who)
            if not till or till + 0 <= now then stuck[#stuck + 1] = name end
        end
    end
    cursor = to < #list / 2 and tostring(to - forgotten) or page[1]
    return forgotten
end
