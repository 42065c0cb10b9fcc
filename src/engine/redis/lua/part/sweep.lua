-- Ending what is over in the room, in bounded steps.

-- The ticket NUMBER of the line NAME ends, if it is there.
local function end_ticket(name, number)
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    unfold(name)
    local member = call('HGET', g, number)
    if member then
        finish(name, number, member)
    else
        member = call('ZRANGEBYSCORE', w, number, number)[1]
        if not member then return end
        drop(name, number, member)
    end
    settle(name)
    tell_observers(name)
end

-- So many tickets of a dead session at most. Its end is 0 first: a clock that goes back revives nobody.
local function end_session(sid, budget)
    local s = room .. ':s:' .. sid
    call('HDEL', s, '') -- nothing; but once a script wrote, a full server lets it go on
    call('HSET', room, '\3' .. sid, 0)
    local list = call('HRANDFIELD', s, budget + 2, 'WITHVALUES')
    for i = 1, #list, 2 do
        local name = match(list[i], '^%S+ (.+)$')
        if name and budget > 0 then
            budget = budget - 1
            end_ticket(name, list[i + 1])
            call('HDEL', s, list[i])
        end
    end
    if budget > 0 then -- the list was all it had
        call('DEL', s)
        call('ZREM', index_e, sid)
        call('HDEL', room, '\3' .. sid)
    end
    return budget - 1
end

local function sweep(budget)
    while budget > 0 do
        local first = call('ZRANGEBYSCORE', index_e, '-inf', now, 'LIMIT', 0, 1)[1]
        if not first then return end
        local number, name = match(first, '^(%S+) (.+)$')
        if first == '\2' then
            call('ZREM', index_e, first)
            call('HDEL', room, first)
            budget = budget - 1
        elseif number then
            call('ZREM', index_e, first)
            end_ticket(name, number)
            budget = budget - 1
        else
            budget = end_session(first, budget)
        end
    end
end
