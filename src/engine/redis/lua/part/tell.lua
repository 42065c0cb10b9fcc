-- Telling: pushes to sessions, states to observers while `watched` (a time) is not over.

-- Only to whom is not over.
local function push(kind, name, number, sid, flags, chan)
    local v = '0'
    if not find(flags, 'D', 1, true) then
        chan = sub(sid, 1, 12)
        v = call('HINCRBY', room .. ':s:' .. sid, 'v', 1)
    elseif chan == '' then
        return
    end
    call('PUBLISH', room .. ':p:' .. chan,
         sid .. ' ' .. v .. ' ' .. kind .. ' ' .. number .. ' ' .. name)
end

--@include label
--@include front
-- count, mode, of, fence, label, value: the last four as text
local function state(name)
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    local granted, waiting = call('HLEN', g), call('ZCARD', w)
    local member, number = front_of(g, w)
    if not member then return 0, '0', '0', '0', '', '' end
    local sid, _, mode, _, of, flags = match(member, MEMBER)
    if not sid or granted == 0 then
        return granted + waiting, mode or '0', of or '0', '0', '', ''
    end
    return granted + waiting, mode, of, number, label_of(name, number, sid, flags),
           value_of(name, number, flags)
end

local function tell_observers(name)
    if watched <= now then return end
    local count, mode, of, fence, label, value = state(name)
    call('PUBLISH', room .. ':o:' .. name, count .. ' ' .. mode .. ' ' .. of .. ' ' .. fence ..
         ' ' .. #label .. ' ' .. label .. value)
end
