-- Times that are to come.
--@include open
--@include clock
local page = call('SCAN', arg[2], 'MATCH', arg[3], 'COUNT', '256')
local reply = {tag, 0, page[1]}
for i = 1, #page[2] do
    local ends = redis.pcall('GET', page[2][i])
    if type(ends) == 'string' and match(ends, '^%d%d%d%d%d%d%d%d%d%d%d%d%d$') and ends * 1000 >= moment + 0 then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = page[2][i], 1, 0
    end
end
return reply
