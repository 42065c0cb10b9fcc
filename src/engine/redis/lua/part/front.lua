-- The first ticket of the line: member and number, or nothing.
local function front_of(g, w)
    local keys = call('HKEYS', g)
    local least = keys[1]
    for i = 2, #keys do
        if tonumber(keys[i]) < tonumber(least) then least = keys[i] end
    end
    if least then return call('HGET', g, least), least end
    local first = call('ZRANGE', w, 0, 0, 'WITHSCORES')
    return first[1], first[2]
end
