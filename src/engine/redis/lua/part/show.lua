-- Adds a ticket to the reply, if it is not over.
local function show(reply, name, number, member, granted)
    local sid, _, _, _, _, flags = match(member, MEMBER)
    if not sid or over(name, number, sid, flags) then return end
    local till
    if find(flags, 'D', 1, true) then
        till = call('ZSCORE', index_e, number .. ' ' .. name)
    else
        till = call('HGET', room, '\3' .. sid)
    end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = name, tonumber(number), member
    reply[n + 4], reply[n + 5] = tonumber(till or 0), label_of(name, number, sid, flags)
    reply[n + 6], reply[n + 7] = value_of(name, number, flags), granted
end
