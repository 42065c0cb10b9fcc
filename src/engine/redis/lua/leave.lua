-- Takes a ticket out of its line and grants the next.
--@include head
local name, sid, number = arg[2], arg[3], arg[4]
local s = room .. ':s:' .. sid
local marks = call('HMGET', room, name, '\2')
local folded, watch = marks[1] or '', marks[2]
local star, its, who, nonce = string.match(folded, '^(%*?)(%d+) (%S+) (%S+)')
-- A number alone may name a later ticket: a replica that lacks the last ones, and whose clock is behind, gives numbers again.
local any = number ~= '0' and (not arg[5] or arg[5] == '0')
local ours = who == sid and (its == number or number == '0') and (any or nonce == arg[5])
local short = number ~= '0' and not arg[6]
-- A plain ticket, alone: nobody waits. Nor does anybody observe, whose look would have unfolded it.
if star == '' then
    if not ours then return {tag, 1} end
    call('HDEL', room, name)
    call('HDEL', s, nonce .. ' ' .. name)
    return short and tag or {tag, 0, 1}
end
--@include now
-- From one plain ticket to the one that waits, which stands beside it: a hand-over waits for this, so it
-- makes few calls and few strings. All is found by its place: see part/unfold.lua.
local sub = string.sub
local at = string.byte(folded) == 43 and not watch and string.find(folded, '\n', 36, true)
if at and sub(folded, 1, 34) == '+' .. number .. ' ' .. sid then
    local lives, heir = sub(folded, at + 1, at + 16), sub(folded, at + 35, at + 50)
    nonce = string.match(folded, '%S+', 36)
    if lives + 0 <= now then lives = call('HGET', room, '\3' .. heir) end -- it may have beaten since
    if lives and lives + 0 > now and (any or nonce == arg[5]) then
        call('HDEL', s, nonce .. ' ' .. name)
        call('HSET', room, name, sub(folded, at + 18) .. moment)
        call('PUBLISH', room .. ':p:' .. sub(heir, 1, 12), heir .. ' ' ..
             call('HINCRBY', room .. ':s:' .. heir, 'v', 1) .. ' G ' ..
             sub(folded, at + 18, at + 33) .. ' ' .. name)
        return short and tag or {tag, 0, 1}
    end
end
local g, w = room .. ':g:' .. name, room .. ':w:' .. name
-- From one plain ticket to the next, an exclusive one: what a hand-over waits for is kept short.
local first = ours and not watch and call('ZPOPMIN', w)
if first and first[1] then
    local kept, heir, flags = string.match(first[1], '^((%S+) %S+ 0 0 0 ([-ad]+) %d+ )0$')
    local lives = heir and call('HGET', room, '\3' .. heir)
    if lives and lives + 0 > now then
        local kind = ' G '
        if string.find(flags, 'a', 1, true) and call('ZCARD', w) > 0 then kind = ' H ' end
        call('HDEL', s, nonce .. ' ' .. name)
        call('HSET', room, name, '*' .. first[2] .. ' ' .. kept .. moment) -- others may wait
        call('PUBLISH', room .. ':p:' .. string.sub(heir, 1, 12), heir .. ' ' ..
             call('HINCRBY', room .. ':s:' .. heir, 'v', 1) .. kind .. first[2] .. ' ' .. name)
        return short and tag or {tag, 0, 1}
    end
    call('ZADD', w, first[2], first[1])
elseif first then -- nobody waits any more
    call('HDEL', room, name)
    call('HDEL', s, nonce .. ' ' .. name)
    return short and tag or {tag, 0, 1}
end
--@include unfold
unfold(name, folded)
if number == '0' then
    number = call('HGET', s, arg[5] .. ' ' .. name)
    if not number then return {tag, 1} end
end
local function is_ours(member)
    local its_sid, its_nonce = string.match(member, '^(%S+) (%S+)')
    return its_sid == sid and (any or its_nonce == arg[5])
end
local member = call('HGET', g, number)
if member and not is_ours(member) then return {tag, 1} end
local watched = tonumber(watch or 0)
--@include ticket
--@include tell
--@include settle
if member and (arg[6] or arg[4] == '0') then
    drop(name, number, member, true) -- nobody was told of its grant: it keeps nothing
elseif member then
    finish(name, number, member)
else
    local waiting = call('ZRANGEBYSCORE', w, number, number)[1]
    if not waiting or not is_ours(waiting) then
        if arg[4] == '0' then call('HDEL', s, arg[5] .. ' ' .. name) end
        local _, changed
        if call('HLEN', g) == 0 then _, changed = settle(name) end -- a try may have ended in its middle
        if changed then tell_observers(name) end
        return {tag, 1}
    end
    drop(name, number, waiting)
end
settle(name)
tell_observers(name)
-- What was unfolded for somebody's look folds again with one plain holder, for the hand-overs to come.
if not watch and call('HLEN', g) == 1 then
    local left = call('HGETALL', g)
    if string.find(left[2], '^%x+ %d+ [01] 0 0 [-ad]+ %d+ %d+$') then
        call('DEL', g)
        call('HSET', room, name, (call('ZCARD', w) > 0 and '*' or '') .. left[1] .. ' ' .. left[2])
    end
end
return {tag, 0, member and 1 or 0}
