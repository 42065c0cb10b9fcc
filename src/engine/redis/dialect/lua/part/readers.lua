-- Of a read/write lock: the key that says that ID's read hold lives, and whether FIELD is a holder's.
local function alive(name, id)
    if string.find(name, '{', 1, true) then return name .. ':' .. id .. ':rwlock_timeout:' end
    return '{' .. name .. '}:' .. id .. ':rwlock_timeout:'
end
local function holder(field)
    return match(field, '^(%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+)(:?w?r?i?t?e?)$')
end
