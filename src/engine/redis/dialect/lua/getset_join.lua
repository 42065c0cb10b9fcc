-- The value is when it ends, by the clock of who took it: the ID of a join is the time there. Nobody can say whose it is.
--@include open
local ttl = arg[2]
for i = 3, #arg, 4 do
    local ends = redis.pcall('GET', arg[i])
    if type(ends) == 'table' then return {tag, 3, (i - 3) / 4, call('TYPE', arg[i]).ok} end
    if ends and not match(ends, '^%d+$') then return {tag, 3, (i - 3) / 4, 'time'} end
    if ends and ends + 0 >= arg[i + 1] + 0 then return {tag, 2, (i - 3) / 4, ends - arg[i + 1], ends} end
end
local reply = {tag, 0}
for i = 3, #arg, 4 do
    local stamp = string.format('%.0f', arg[i + 1] + ttl + 1)
    if call('SETNX', arg[i], stamp) == 0 then call('GETSET', arg[i], stamp) end
    reply[#reply + 1] = 1
end
return reply
