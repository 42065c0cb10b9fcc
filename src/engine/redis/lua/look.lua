-- The state of a line, for observers, who from then on are told of changes.
--@include head
--@include now
--@include watched
--@include ticket
--@include tell
--@include settle
--@include unfold
--@include soonest
local name, till = arg[2], now + arg[3] * 1000
unfold(name)
if purge(name, 1000, true) then
    settle(name)
    tell_observers(name)
end
if till > now and till > watched then -- and who sweeps takes the mark away when it is over
    call('HSET', room, '\2', string.format('%.0f', till))
    call('ZADD', index_e, till, '\2')
end
local count, mode, of, fence, label, value = state(name)
return {tag, 0, now, soonest(''), count, tonumber(mode), tonumber(of), tonumber(fence), label, value}
