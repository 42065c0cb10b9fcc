-- Takes a lock, or all of a set, on this node, and numbers it: what its client proposes, or more.
local name, call, arg = KEYS[1], redis.call, ARGV
local tag, token, ttl, text = arg[1], arg[2], arg[3], arg[4]
local number, last = text + 0, (call('GET', 'rota:f') or 0) + 1
-- A client whose clocks are far ahead must not spend the numbers of the years to come.
if number > last + 10000000 then
    local now = call('TIME')
    local most = now[1] * 1000000 + now[2] + 10000000
    if number > most then
        number = most
        text = string.format('%.0f', number)
    end
end
if last > number then text = string.format('%.0f', last) end
local value = token .. ' rota ' .. text .. arg[5]
for i = 5, #arg do
    local key = i == 5 and name or arg[i]
    if not call('SET', key, value, 'NX', 'PX', ttl) then
        local kind = call('TYPE', key).ok
        local old = kind == 'string' and call('GET', key) or ''
        if string.sub(old, 1, 32) == token then -- asked again
            call('SET', key, value, 'PX', ttl)
        else
            for k = 5, i - 1 do call('DEL', k == 5 and name or arg[k]) end
            if kind ~= 'string' then return {tag, 3, 0, kind, i - 5} end
            return {tag, 2, call('PTTL', key), old, i - 5}
        end
    end
end
call('SET', 'rota:f', text)
return tag .. ' ' .. text
