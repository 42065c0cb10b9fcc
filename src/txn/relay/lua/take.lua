-- Up to ARGV[4] messages of group ARGV[2] for consumer ARGV[3]: first those that nobody answered for ARGV[5] ms. Six of each: place,
-- id, key, type (behind a "+", or ""), body, stream. The whole group has no more than ARGV[4] under way: with 1 it keeps the order.
local call, arg, name = redis.call, ARGV, KEYS[1]
local reply = {arg[1], 0}
local function put(entries)
    for _, entry in ipairs(entries) do
        local has = {}
        for i = 1, #(entry[2] or {}), 2 do has[entry[2][i]] = entry[2][i + 1] end
        reply[#reply + 1] = entry[1]
        reply[#reply + 1] = has.id or ''
        reply[#reply + 1] = has.key and '+' .. has.key or ''
        reply[#reply + 1] = has.type and '+' .. has.type or ''
        reply[#reply + 1] = has.body or ''
        reply[#reply + 1] = name
    end
end
put(call('XAUTOCLAIM', name, arg[2], arg[3], arg[5], '0', 'COUNT', arg[4])[2])
local room = arg[4] - call('XPENDING', name, arg[2])[1]
if #reply == 2 and room > 0 then
    local new = call('XREADGROUP', 'GROUP', arg[2], arg[3], 'COUNT', room, 'STREAMS', name, '>')
    if new then put(new[1][2]) end
end
return reply
