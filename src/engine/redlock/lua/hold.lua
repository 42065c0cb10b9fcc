-- Where a lock is ours it gets its number, which the counter has then too, and its whole ttl anew; with "a" also where nobody has it.
local name, call, arg = KEYS[1], redis.call, ARGV
local tag, token, ttl = arg[1], arg[2], arg[3]
local value = token .. ' rota ' .. arg[4] .. arg[5]
local marks = ''
for i = 6, #arg do
    local key = i == 6 and name or arg[i]
    local kind = call('TYPE', key).ok
    local old = kind == 'string' and call('GET', key) or ''
    local ours = string.sub(old, 1, 32) == token or kind == 'none' and arg[6] == 'a'
    if ours then call('SET', key, value, 'PX', ttl) end
    marks = marks .. (ours and '1' or '0')
end
if (call('GET', 'rota:f') or 0) + 0 < arg[4] + 0 then call('SET', 'rota:f', arg[4]) end
return {tag, 0, marks}
