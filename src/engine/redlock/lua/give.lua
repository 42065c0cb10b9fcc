-- Gives a lock back, or all of a set, where it is ours.
local name, call, arg = KEYS[1], redis.call, ARGV
local marks, all = '', true
for i = 2, #arg do
    local key = i == 2 and name or arg[i]
    local old = redis.pcall('GET', key)
    local ours = type(old) == 'string' and string.sub(old, 1, 32) == arg[2]
    if ours then call('DEL', key) end
    all = all and ours
    marks = marks .. (ours and '1' or '0')
end
if all then return arg[1] end
return {arg[1], 1, marks}
