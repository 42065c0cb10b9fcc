-- Changes or verifies a granted ticket.
--@include head
--@include now
--@include watched
--@include ticket
--@include tell
--@include settle
--@include unfold
local name, mine, number, what = arg[2], arg[3], arg[4], arg[5]
local g, w = room .. ':g:' .. name, room .. ':w:' .. name
unfold(name)
local member = call('HGET', g, number)
local sid, nonce, mode, take, of, flags, owner, granted, chan = match(member or '', MEMBER)
if sid ~= mine or over(name, number, sid, flags) then return {tag, 1} end
local downgrade, value = find(what, 'D', 1, true), find(what, 'V', 1, true)
if downgrade and mode ~= '0' and mode ~= '1' then
    return {tag, 3, tonumber(mode), tonumber(of), 0}
end
local waiting = call('ZCARD', w)
if value then
    call('HSET', room .. ':x:' .. name, number .. 'v', arg[6])
    if not find(flags, 'x', 1, true) then flags = flags .. 'x' end
end
if find(what, 'A', 1, true) and not find(flags, 'a', 1, true) then flags = flags .. 'a' end
if downgrade then mode = '1' end
local changed = sid .. ' ' .. nonce .. ' ' .. mode .. ' ' .. take .. ' ' .. of .. ' ' ..
                flags .. ' ' .. owner .. ' ' .. granted .. (chan ~= '' and ' ' .. chan or '')
if changed ~= member then call('HSET', g, number, changed) end
if downgrade then settle(name) end
if downgrade or value then tell_observers(name) end
if not find(flags, 'a', 1, true) then return {tag, 0, 0} end
return {tag, 0, call('ZCARD', w) > 0 and 1 or 0}
