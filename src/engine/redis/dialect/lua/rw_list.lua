-- Hashes with a mode whose other fields are holders.
--@include open
--@include readers
local page = call('SCAN', arg[2], 'MATCH', arg[3], 'COUNT', '256')
local reply = {tag, 0, page[1]}
for i = 1, #page[2] do
    local name = page[2][i]
    local mode = call('TYPE', name).ok == 'hash' and call('HLEN', name) < 1025 and call('HGET', name, 'mode')
    local good = 0
    for _, field in ipairs(mode and call('HKEYS', name) or {}) do
        local id, writes = holder(field)
        if id and (writes ~= '' or call('EXISTS', alive(name, id) .. '1') == 1) then good = good + 1 end
    end
    if good > 0 then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = name, good, 0
    end
end
return reply
