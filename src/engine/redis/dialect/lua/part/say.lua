-- What somebody's hold is shown as: its name for itself, number, mode, text of ours.
local reply = {tag, 0, now}
local function show(id, number, left, mode, granted, text)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = id, (number or 0) + 0, left
    reply[n + 4], reply[n + 5], reply[n + 6] = mode, granted, text or ''
end
