-- When the next end is due, but for that of SID; 0: none.
local function soonest(sid)
    local list = call('ZRANGE', index_e, 0, 1, 'WITHSCORES')
    return tonumber(list[list[1] == sid and 4 or 2] or 0)
end
