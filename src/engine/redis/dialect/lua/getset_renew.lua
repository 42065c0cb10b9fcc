-- As long as it has not ended by our clock it is believed to be ours.
--@include open
local reply = {tag, 0}
for i = 3, #arg, 3 do
    local ends = redis.pcall('GET', arg[i])
    local lives = type(ends) == 'string' and match(ends, '^%d+$') and ends + 0 >= arg[i + 1] + 0
    if lives then call('SET', arg[i], string.format('%.0f', arg[i + 1] + arg[2] + 1)) end
    reply[#reply + 1] = lives and 1 or 0
end
return reply
