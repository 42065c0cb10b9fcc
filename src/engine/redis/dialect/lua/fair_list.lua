-- Hashes that are locks by their shape, and how many wait for each; and queues without one.
--@include open
--@include owner
--@include names
local page = call('SCAN', arg[2], 'MATCH', arg[3], 'COUNT', '256')
local reply = {tag, 0, page[1]}
for i = 1, #page[2] do
    local name = page[2][i]
    local fields = call('TYPE', name).ok == 'hash' and call('HLEN', name) < 65 and call('HKEYS', name) or {}
    local good = 0
    for f = 1, #fields do
        if is_owner(fields[f]) then good = good + 1 end
    end
    if good > 0 and good == #fields and string.sub(name, 1, 5) ~= 'rota:' then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = name, good, call('LLEN', of('redisson_lock_queue', name))
    end
end
return reply
