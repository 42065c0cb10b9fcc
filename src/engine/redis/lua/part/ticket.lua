-- One ticket: is it over, and how it goes. Numbers of tickets are text here.
local find, sub, match, format = string.find, string.sub, string.match, string.format
local index_e = room .. ':e'
local FAR_MS = 4e12 -- ends so far away are never
-- sid, nonce, mode, take, of, flags, owner, granted, chan; a member that is none has no sid
local MEMBER = '^(%S+) (%S+) (%d) (%d+) (%d+) (%S+) (%d+) (%d+) ?(%S*)$'

-- Whether its time, or that of its session, is over. No session: dead.
local function over(name, number, sid, flags)
    if find(flags, 'D', 1, true) then
        local till = call('ZSCORE', index_e, number .. ' ' .. name)
        if till then return tonumber(till) <= now end
        return sid == '-'
    end
    local x = tonumber(call('HGET', room, '\3' .. sid) or 0)
    return not x or x <= now
end

-- Takes it out of its line, with all that belongs to it.
local function drop(name, number, member, granted)
    if granted then
        call('HDEL', room .. ':g:' .. name, number)
    else
        call('ZREM', room .. ':w:' .. name, member)
    end
    local sid, nonce, _, _, _, flags = match(member, MEMBER)
    if not sid then return end
    if sid ~= '-' then call('HDEL', room .. ':s:' .. sid, nonce .. ' ' .. name) end
    if find(flags, 'x', 1, true) then
        call('HDEL', room .. ':x:' .. name, number .. 'v', number .. 'a', number .. 'l')
    end
    if find(flags, 'D', 1, true) then call('ZREM', index_e, number .. ' ' .. name) end
end

-- Ends a granted ticket: drops it, or keeps the line taken for its at_least.
local function finish(name, number, member)
    local sid, nonce, mode, take, of, flags, _, granted = match(member, MEMBER)
    if sid and sid ~= '-' and find(flags, 'x', 1, true) then
        local least = call('HGET', room .. ':x:' .. name, number .. 'a')
        local till = least and (granted == '0' and number or granted) + math.min(least, FAR_MS) * 1000
        if till and till > now then
            -- First what needs no memory: once a script wrote, a full server lets it go on.
            call('HDEL', room .. ':s:' .. sid, nonce .. ' ' .. name)
            call('HSET', room .. ':g:' .. name, number, '- ' .. number .. ' ' .. mode .. ' ' ..
                 take .. ' ' .. of .. ' Dx 0 ' .. granted)
            call('ZADD', index_e, till, number .. ' ' .. name)
            return
        end
    end
    drop(name, number, member, true)
end
