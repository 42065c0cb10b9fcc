-- A hash of mode, readers UUID:THREAD and the writer UUID:THREAD:write; a key for the life of each read hold. Without those a
-- reader is wiped when Redisson's last one leaves. Never beside a hash without a mode, which is a plain lock.
--@include open
--@include fence
--@include readers
local ttl, mine, found = arg[2], {}, 0
for i = 3, #arg, 4 do
    local name, at = arg[i], (i - 3) / 4
    local field = arg[i + 2] == '1' and arg[i + 1] or arg[i + 1] .. ':write'
    local kind = call('TYPE', name).ok
    if kind ~= 'none' and kind ~= 'hash' then return {tag, 3, at, kind} end
    local mode = kind == 'hash' and call('HGET', name, 'mode')
    if kind == 'hash' and not mode then return {tag, 3, at, 'lock'} end
    if mode and call('HEXISTS', name, field) == 1 then
        mine[i] = match(call('HGET', 'rota:i:' .. name, field) or '', '^%d+') or number
        found = found + 1
    elseif mode and not (mode == 'read' and arg[i + 2] == '1') then
        local who
        for _, one in ipairs(call('HKEYS', name)) do
            if one ~= 'mode' and not holder(one) then return {tag, 3, at, 'shape'} end
            if one ~= 'mode' then who = one end
        end
        if not who then return {tag, 3, at, 'shape'} end
        return {tag, 2, at, call('PTTL', name), who .. ' ' .. (call('HGET', 'rota:i:' .. name, who) or '')}
    end
end
if found > 0 and found < (#arg - 2) / 4 then return {tag, 4} end
local reply = {tag, 0}
for i = 3, #arg, 4 do
    local name, id, its = arg[i], arg[i + 1], mine[i] or number
    local reads = arg[i + 2] == '1'
    local field = reads and id or id .. ':write'
    call('HSET', name, 'mode', reads and 'read' or 'write')
    call('HSET', name, field, '1')
    if reads then call('SET', alive(name, id) .. '1', '1', 'PX', ttl) end
    call('PEXPIRE', name, reads and math.max(call('PTTL', name), ttl) or ttl)
    call('HSET', 'rota:i:' .. name, field, its .. ' ' .. arg[i + 3])
    call('PEXPIRE', 'rota:i:' .. name, ttl)
    reply[#reply + 1] = its + 0
end
call('SET', 'rota:{f}', number)
return reply
