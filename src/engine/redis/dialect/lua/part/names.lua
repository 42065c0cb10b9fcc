-- Redisson's names for what belongs to the lock NAME: it looks for a brace anywhere in it.
local function of(prefix, name)
    if string.find(name, '{', 1, true) then return prefix .. ':' .. name end
    return prefix .. ':{' .. name .. '}'
end
