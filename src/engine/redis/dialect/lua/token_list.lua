-- Keys that may be locks: strings that end by themselves, and what is ours.
--@include open
local page = call('SCAN', arg[2], 'MATCH', arg[3], 'COUNT', '256')
local reply = {tag, 0, page[1]}
for i = 1, #page[2] do
    local name = page[2][i]
    local value = redis.pcall('GET', name)
    if type(value) == 'string' and (call('PTTL', name) > 0 or match(value, '^%x+ %d+ %d+ ')) then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = name, 1, 0
    end
end
return reply
