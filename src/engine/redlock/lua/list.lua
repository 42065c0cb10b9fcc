-- Some of the locks whose names begin so: those that Rota's clients took.
local call, arg = redis.call, ARGV
local found = call('SCAN', arg[2], 'COUNT', 500)
local reply = {arg[1], 0, found[1]}
for _, key in ipairs(found[2]) do
    if string.sub(key, 1, #arg[3]) == arg[3] and call('TYPE', key).ok == 'string' then
        local value = call('GET', key)
        if string.find(value, '^%x+ rota %d+ ') == 1 then
            reply[#reply + 1] = key
            reply[#reply + 1] = value
        end
    end
end
return reply
