-- SETNX, and no end yet: that is a step of its own (token_renew), and who dies between the two leaves the key for ever.
--@include open
local all, mine, found = {}, {}, 0
for i = 3, #arg, 4 do
    local value = redis.pcall('GET', arg[i])
    if type(value) == 'table' then return {tag, 3, (i - 3) / 4, call('TYPE', arg[i]).ok} end
    if value and match(value, '^%S+') ~= arg[i + 1] then
        return {tag, 2, (i - 3) / 4, call('PTTL', arg[i]), value}
    end
    if value then found = found + 1 end
    all[#all + 1] = arg[i]
    all[#all + 1] = arg[i + 1] .. ' 0 ' .. arg[i + 3]
end
local n = (#arg - 2) / 4
if found > 0 and found < n then return {tag, 4} end
if found == 0 then call('MSETNX', unpack(all)) end
local reply = {tag, 0}
for i = 1, n do reply[i + 2] = 1 end
return reply
