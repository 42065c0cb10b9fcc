-- A hash as of the plain lock, and a queue: a list of owners, and until when each is believed. Who may not hold stands there.
-- MODE is letters: t not to wait, r it stands there already, d it detects. A reply has three of each: number, 1 if it holds (2: it was
-- broken), and in how many ms to look again.
--@include open
--@include fence
--@include names
--@include owner
--@include queue
local ttl, ms, many = arg[2], math.floor(now / 1000), (#arg - 2) / 4
local heads, found = {}, 0
for i = 3, #arg, 4 do
    local name, id, at = arg[i], arg[i + 1], (i - 3) / 4
    local kind = call('TYPE', name).ok
    if kind ~= 'none' and kind ~= 'hash' then return {tag, 3, at, kind} end
    for _, field in ipairs(kind == 'hash' and call('HKEYS', name) or {}) do
        if field == 'mode' then return {tag, 3, at, 'rw'} end
        if not is_owner(field) then return {tag, 3, at, 'shape'} end
    end
    heads[i] = sweep(name)
    local _, t = queue_of(name)
    if call('HEXISTS', name, id) == 1 or call('ZSCORE', t, id) then
        found = found + 1
    elseif string.find(arg[i + 2], 't', 1, true) and (kind ~= 'none' or heads[i]) then
        local who = kind ~= 'none' and call('HKEYS', name)[1] or heads[i]
        return {tag, 2, at, call('PTTL', name), who .. ' ' .. (call('HGET', 'rota:i:' .. name, who) or '')}
    end
end
if found > 0 and found < many then return {tag, 4} end
local reply = {tag, 0}
for i = 3, #arg, 4 do
    local name, id, how, head = arg[i], arg[i + 1], arg[i + 2], heads[i]
    local info, q, t = 'rota:i:' .. name, queue_of(name)
    local known = call('HGET', info, id) or ''
    local number, text = match(known, '^(%d+) (.*)$')
    local holds, left = 0, call('PTTL', name)
    local ends = call('ZSCORE', t, id)
    if call('HEXISTS', name, id) == 1 then
        holds = 1
        call('PEXPIRE', name, ttl)
    elseif string.find(how, 'r', 1, true) and number == '0' then
        holds = 2
        call('HDEL', info, id)
    elseif left == -2 and (not head or head == id) then
        holds = 1
        if unqueue(name, id) then
            let_up(name, ms, ttl)
        else
            number = nil -- who was dropped: others may have had it meanwhile
        end
        call('HSET', name, id, '1')
        call('PEXPIRE', name, ttl)
        if call('HLEN', info) > call('LLEN', q) + 2 then -- of some who are dead
            for _, one in ipairs(call('HKEYS', info)) do
                if one ~= id and not call('ZSCORE', t, one) then call('HDEL', info, one) end
            end
        end
    elseif ends then
        if ends + 0 < ms + ttl then call('ZADD', t, ms + ttl, id) end
    else
        local tail = call('LINDEX', q, -1)
        local foreign = tail and call('HEXISTS', info, tail) == 0 and call('ZSCORE', t, tail)
        call('ZADD', t, (foreign or ms) + ttl, id)
        call('RPUSH', q, id)
        number = nil -- who was dropped stands at the end, with a number of its own
    end
    if holds ~= 2 then
        if not number then
            number = moment
            last = call('GET', 'rota:{f}')
            if last and last + 1 > now then number = string.format('%.0f', last + 1) end
            call('SET', 'rota:{f}', number)
        end
        call('HSET', info, id, number .. ' ' .. (text or arg[i + 3]))
        call('PEXPIRE', info, ttl)
    end
    local detects = string.find(how, 'd', 1, true)
    if detects and holds == 0 then
        call('HSET', session_of(id), number .. ' ' .. name, id)
        call('PEXPIRE', session_of(id), ttl)
    elseif detects then
        call('HDEL', session_of(id), number .. ' ' .. name)
    end
    if holds == 0 and left == -2 then left = (call('ZSCORE', t, call('LINDEX', q, 0)) or ms) - ms end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = number + 0, holds, left
end
return reply
