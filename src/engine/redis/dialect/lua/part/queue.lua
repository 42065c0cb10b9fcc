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
-- Detecting waiters by session: what they wait for.
local function session_of(id)
    local a, b, c, d = match(id, '^(%x+)%-(%x+)%-4(%x+)%-8(%x)')
    return 'rota:s:' .. a .. b .. c .. d
end
