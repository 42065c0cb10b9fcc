-- A hash of UUID:THREAD and how often it holds. Never beside a lock of another shape, nor past a fair lock's queue.
--@include open
--@include fence
--@include names
--@include owner
local ttl, mine, found = arg[2], {}, 0
for i = 3, #arg, 4 do
    local name, id = arg[i], arg[i + 1]
    local kind = call('TYPE', name).ok
    if kind == 'none' then
        if call('EXISTS', of('redisson_lock_queue', name)) == 1 then
            return {tag, 3, (i - 3) / 4, 'queue'}
        end
    elseif kind ~= 'hash' then
        return {tag, 3, (i - 3) / 4, kind}
    elseif call('HEXISTS', name, id) == 1 then
        mine[i] = match(call('HGET', 'rota:i:' .. name, id) or '', '^%d+') or number
        found = found + 1
    else
        local fields = call('HKEYS', name)
        for f = 1, #fields do
            if fields[f] == 'mode' then return {tag, 3, (i - 3) / 4, 'rw'} end
            if not is_owner(fields[f]) then return {tag, 3, (i - 3) / 4, 'shape'} end
        end
        return {tag, 2, (i - 3) / 4, call('PTTL', name), fields[1] .. ' ' .. (call('HGET', 'rota:i:' .. name, fields[1]) or '')}
    end
    -- Where fenced locks are in use, their tokens go on from ours.
    local token = call('GET', of('redisson_lock_token', name))
    if token and tonumber(token) and tonumber(token) >= number + 0 then
        number = string.format('%.0f', token + 1)
    end
end
if found > 0 and found < (#arg - 2) / 4 then return {tag, 4} end
local reply = {tag, 0}
for i = 3, #arg, 4 do
    local name, id, its = arg[i], arg[i + 1], mine[i] or number
    if not mine[i] then
        call('HSET', name, id, '1')
        local token = of('redisson_lock_token', name)
        if call('EXISTS', token) == 1 then call('SET', token, number) end
    end
    call('PEXPIRE', name, ttl)
    call('HSET', 'rota:i:' .. name, id, its .. ' ' .. arg[i + 3])
    call('PEXPIRE', 'rota:i:' .. name, ttl)
    reply[#reply + 1] = its + 0
end
call('SET', 'rota:{f}', number)
return reply
