-- A fair lock: its queue, heads that are over (by their score, in ms) dropped, and who is next told.
local function queue_of(name) return of('redisson_lock_queue', name), of('redisson_lock_timeout', name) end
local function sweep(name)
    local q, t = queue_of(name)
    while true do
        local head = call('LINDEX', q, 0)
        local ends = head and call('ZSCORE', t, head)
        if not ends or ends + 0 > now / 1000 then return head end
        call('LPOP', q)
        call('ZREM', t, head)
        call('HDEL', 'rota:i:' .. name, head)
    end
end
local function tell_next(name)
    local head = sweep(name)
    if head then call('PUBLISH', of('redisson_lock__channel', name) .. ':' .. head, '0') end
end
local function unqueue(name, id)
    local q, t = queue_of(name)
    local there = call('ZREM', t, id) + call('LREM', q, 0, id)
    return there > 0
end
-- Who held a place of TTL ms has left it. Redisson's waiters add their time to that of who is before them, and take it off
-- all when they are granted: without this their ends would move away for ever, and one who is dead would stand in the way.
local function let_up(name, ms, ttl)
    local q, t = queue_of(name)
    local head = call('LINDEX', q, 0)
    if not head or call('HEXISTS', 'rota:i:' .. name, head) == 1 then return end
    for _, one in ipairs(call('LRANGE', q, 0, -1)) do
        local ends = call('ZSCORE', t, one)
        if ends then call('ZADD', t, math.max(ends - ttl, math.min(ends, ms + ttl)), one) end
    end
end
-- Detecting waiters by session: what they wait for.
local function session_of(id)
    local a, b, c, d = match(id, '^(%x+)%-(%x+)%-4(%x+)%-8(%x)')
    return 'rota:s:' .. a .. b .. c .. d
end
