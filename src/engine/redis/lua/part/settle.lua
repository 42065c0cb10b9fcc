-- The line after a change: who is granted now, who is told, and whether anything is left.

-- So many of the dead one run takes out of lines at most: the server does nothing else meanwhile. While some that are
-- in the way may be left (spare is 0), nobody behind them is granted: whoever waits there sweeps on, a join says MORE.
local spare = 500

-- Whether MODE, TAKE, OF fits behind those in g, as core/grant.c says; nobody waits before it.
local function fits(g, mode, take, of)
    if mode == '3' then return true end
    if mode == '2' then
        local sum = tonumber(take)
        for _, m in ipairs(call('HVALS', g)) do
            sum = sum + (match(m, '^%S+ %S+ %d (%d+)') or 0)
        end
        return sum <= tonumber(of)
    end
    local holders = call('HLEN', g)
    if holders == 0 then return true end
    -- An exclusive one is alone.
    return mode == '1' and (holders > 1 or match(call('HVALS', g)[1], '^%S+ %S+ (%d)') ~= '0')
end

-- The member of a ticket that is granted now.
local function stamp(member)
    local chan = select(9, match(member, MEMBER))
    if chan == '' then return sub(member, 1, -2) .. moment end
    return sub(member, 1, -3 - #chan) .. moment .. ' ' .. chan
end

-- Moves a waiting ticket to the granted; in g before it leaves w, so that no end of the script
-- can lose it.
local function grant(g, w, number, member)
    call('HSET', g, number, stamp(member))
    call('ZREM', w, member)
end

-- Grants the first `of` of a barrier together, once so many live ones wait.
local function gather(name, g, w, told)
    local live, need, dropped, list = {}, nil, nil, nil
    repeat
        list = call('ZRANGE', w, #live, #live + 99, 'WITHSCORES')
        for i = 1, #list, 2 do
            local sid, _, _, _, of, flags, _, _, chan = match(list[i], MEMBER)
            if not sid or over(name, list[i + 1], sid, flags) then
                if spare <= 0 then return dropped end
                spare = spare - 1
                drop(name, list[i + 1], list[i])
                dropped = true
            else
                need = tonumber(of)
                live[#live + 1] = {list[i + 1], sid, flags, chan, list[i]}
            end
        end
    until #list < 200 or need and #live >= need
    if not need or #live < need then return dropped end
    for i = 1, need do
        local t = live[i]
        grant(g, w, t[1], t[5])
        told[#told + 1] = t
    end
    return dropped
end

-- Grants from the front of w while it fits. FRESH: the number of a ticket that its own answer tells.
-- Answers whether that was granted, and whether anything is other than before.
local function settle(name, fresh)
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    local told, mine, dropped = {}, false, false
    local first = call('ZRANGE', w, 0, 0, 'WITHSCORES')
    while first[1] do
        local member, number = first[1], first[2]
        local sid, _, mode, take, of, flags, _, _, chan = match(member, MEMBER)
        if mode == '4' then
            dropped = gather(name, g, w, told)
            break
        elseif not sid or over(name, number, sid, flags) then
            if spare <= 0 then break end
            spare = spare - 1
            drop(name, number, member)
            dropped = true
        elseif not fits(g, mode, take, of) then
            break
        else
            grant(g, w, number, member)
            told[#told + 1] = {number, sid, flags, chan}
        end
        first = call('ZRANGE', w, 0, 0, 'WITHSCORES')
    end
    local waiting
    for _, t in ipairs(told) do
        local kind = 'G'
        if find(t[3], 'a', 1, true) then
            waiting = waiting or call('ZCARD', w)
            if waiting > 0 then kind = 'H' end
        end
        if t[1] == fresh then mine = true else push(kind, name, t[1], t[2], t[3], t[4]) end
    end
    if #told == 0 and call('HLEN', g) == 0 and call('ZCARD', w) == 0 then
        call('HDEL', room, name)
        call('DEL', room .. ':x:' .. name)
    end
    return mine, dropped or #told > 0
end

-- Ends those of the line who are over: of the granted LIMIT at most, of the waiting the first
-- ones, with DEEP also those behind a live one; while there is something to spare. Answers whether there were any.
local function purge(name, limit, deep)
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    local before = spare
    local list = call('HRANDFIELD', g, limit, 'WITHVALUES')
    for i = 1, #list, 2 do
        local sid, _, _, _, _, flags = match(list[i + 1], MEMBER)
        if spare > 0 and (not sid or over(name, list[i], sid, flags)) then
            finish(name, list[i], list[i + 1])
            spare = spare - 1
        end
    end
    list = call('ZRANGE', w, 0, deep and limit - 1 or 0, 'WITHSCORES')
    local i = 1
    while spare > 0 and list[i] do
        local sid, _, _, _, _, flags = match(list[i], MEMBER)
        if not sid or over(name, list[i + 1], sid, flags) then
            drop(name, list[i + 1], list[i])
            spare = spare - 1
        elseif not deep then
            break
        end
        i = i + 2
        if not deep then
            list, i = call('ZRANGE', w, 0, 0, 'WITHSCORES'), 1
        end
    end
    return spare < before
end
