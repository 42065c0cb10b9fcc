-- Ends what is over in the room, so many tickets at most; first looks at one line, if it is named.
--@include head
--@include now
--@include watched
--@include unfold
--@include ticket
--@include tell
--@include settle
--@include sweep
--@include soonest
local budget, sid, name = tonumber(arg[2]), arg[3], arg[4]
if name ~= '' then
    unfold(name)
    local found = purge(name, budget, true)
    local _, changed = settle(name)
    if found or changed then tell_observers(name) end
end
sweep(budget)
local soon = soonest(sid)
return {tag, 0, now, soon, soon ~= 0 and soon <= now and 1 or 0}
