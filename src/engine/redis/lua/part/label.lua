-- What a ticket is shown with.
local function label_of(name, number, sid, flags)
    if find(flags, 'D', 1, true) then
        return call('HGET', room .. ':x:' .. name, number .. 'l') or ''
    end
    return call('HGET', room .. ':s:' .. sid, 'l') or ''
end

local function value_of(name, number, flags)
    return find(flags, 'x', 1, true) and call('HGET', room .. ':x:' .. name, number .. 'v') or ''
end
