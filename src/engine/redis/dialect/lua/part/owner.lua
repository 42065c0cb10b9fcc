-- Whether FIELD is one of Redisson's owners: UUID:THREAD.
local function is_owner(field)
    return match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$') ~= nil
end
