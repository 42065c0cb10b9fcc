-- Puts one ticket, or a set of them, into lines of the room: all or none.
--@include head
--@include now
local how, sid, short = arg[2], arg[3], #arg == 6
local s, name = room .. ':s:' .. sid, short and arg[4] or arg[6]
local marks = call('HMGET', room, '\3' .. sid, name, '\1', '\2')
local alive, last = marks[1] and marks[1] + 0 > now, marks[3]
--@include number
-- The plain ask: one ticket without extras, in an empty line that nobody observes.
if alive and not marks[2] and not marks[4] then
    local member = short and arg[6] or arg[8]
    if number ~= moment then member = string.sub(member, 1, -2) .. moment end -- else its number says when
    if short then
        call('HSET', s, arg[5], number)
        call('HSET', room, '\1', number, name, number .. ' ' .. member)
        return tag .. ' ' .. number
    elseif #arg == 14 and (how == '-' or how == 't') and arg[9] ~= '4' and arg[12] == '0' and
           arg[14] == '' then
        call('HSET', s, arg[7], number)
        call('HSET', room, '\1', number, name, number .. ' ' .. member)
        return {tag, 0, now, 0, tonumber(number), 1}
    end
end
-- One exclusive ask more behind a plain ticket that lives: it is busy, or we wait.
local mine = short and arg[6] or #arg == 14 and arg[12] == '0' and arg[14] == '' and arg[8]
if alive and mine and not marks[4] and (how == '-' or how == 't') then
    local star, its, who, flags = string.match(marks[2] or '', '^([*+]?)(%d+) (%S+) %S+ [01] 0 0 (%S+)')
    local lives = its and string.find(mine, '^%S+ %S+ 0 ') and call('HGET', room, '\3' .. who)
    local field = short and arg[5] or arg[7]
    if lives and lives + 0 > now and call('HEXISTS', s, field) == 0 then
        if how == 't' then return {tag, 2, call('HGET', room .. ':s:' .. who, 'l') or '', 0} end
        local w, folded, till = room .. ':w:' .. name, marks[2], marks[1]
        local first = star ~= '+' and call('ZCARD', w) == 0
        local even = #its == 16 and #who == 16 and #till == 16 and #number == 16 and #sid == 16
        local kept = first and even and string.match(mine, '^(%S+ %S+ 0 0 0 [-ad]+ %d+ )0$')
        if star == '*' then folded = string.sub(folded, 2) end
        if kept then -- the only one that waits stands beside who holds
            folded = '+' .. folded .. '\n' .. till .. ' ' .. number .. ' ' .. kept
        elseif star == '+' then
            local holds, next, waits = string.match(folded, '^%+(.+)\n%d+ (%d+) (.+)$')
            call('ZADD', w, next, waits .. '0', number, mine)
            folded = '*' .. holds
        else
            call('ZADD', w, number, mine)
            folded = '*' .. folded
        end
        call('HSET', s, field, number)
        call('HSET', room, '\1', number, name, folded)
        if first and string.find(flags, 'a', 1, true) then
            call('PUBLISH', room .. ':p:' .. string.sub(who, 1, 12), who .. ' ' ..
                 call('HINCRBY', room .. ':s:' .. who, 'v', 1) .. ' W ' .. its .. ' ' .. name)
        end
        local ends = call('ZRANGE', room .. ':e', 0, 1, 'WITHSCORES')
        return {tag, 0, now, tonumber(ends[ends[1] == sid and 4 or 2] or 0),
                tonumber(number), first and 4 or 0}
    end
end
if short then
    local mode, take, of = string.match(arg[6], '^%S+ %S+ (%d) (%d+) (%d+)')
    arg = {tag, how, sid, '0', '', name, arg[5], arg[6], mode, take, of, '0', '0', ''}
end
--@include ticket
--@include soonest
--@include unfold
local watched = tonumber(marks[4] or 0)
--@include tell
--@include settle
--@include sweep
local durable = find(how, 'D', 1, true)
if durable then sweep(4) end -- else marks that end by themselves would pile up where nobody beats
if not durable and not alive and (marks[1] or not find(how, 'c', 1, true)) then return {tag, 1} end

-- A ticket of an earlier try: its number and its state, or nil. One that is over ends, one that is in
-- no line is forgotten.
local function earlier(name, field)
    local number = call('HGET', s, field)
    if not number then return end
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    local granted = call('HGET', g, number)
    local member = granted or call('ZRANGEBYSCORE', w, number, number)[1]
    local its, _, _, _, _, flags = match(member or '', MEMBER)
    if not its then
        call('HDEL', s, field)
    elseif over(name, number, its, flags) then
        if granted then finish(name, number, member) else drop(name, number, member) end
        settle(name)
        tell_observers(name)
    elseif granted then
        return number, find(flags, 'a', 1, true) and call('ZCARD', w) > 0 and 2 or 1
    elseif purge(name, 8, false) then
        settle(name)
        tell_observers(name)
        return earlier(name, field)
    else
        return number, call('ZRANGE', w, 0, 0, 'WITHSCORES')[2] == number and 4 or 0
    end
end

-- Nothing is left of what ended: the ticket of a set that did is not put anew alone.
local asked, found, waits, reply, seen = (#arg - 5) / 9, 0, false, {tag, 0, now, 0}, {}
for i = 1, asked do
    name = arg[9 * i - 3]
    if seen[name] then return {tag, 6} end
    seen[name] = true
    unfold(name)
    local number, state = earlier(name, arg[9 * i - 2])
    if number then
        found = found + 1
        reply[2 * i + 3], reply[2 * i + 4] = tonumber(number), state
        waits = waits or state == 0 or state == 4
    end
end
if found > 0 and found < asked then return {tag, 4} end
-- Who asks with `c` counts the session's time in this room from this very request, also if an earlier one
-- made it, or an END that was lost left it: it begins anew.
local begins = not durable and find(how, 'c', 1, true)
local till = begins and format('%.0f', now + arg[4] * 1000)
if found == asked then
    if begins then
        call('ZREM', index_e, sid) -- needs no memory; once a script wrote, a full server lets it go on
        call('HSET', room, '\3' .. sid, till)
        call('ZADD', index_e, till, sid)
    end
    if waits then reply[4] = soonest(sid) end
    return reply
end

-- Whether the ticket would be granted at once; nil: the line is of another kind, which follows.
local function would(name, mode, take, of)
    local g, w = room .. ':g:' .. name, room .. ':w:' .. name
    local waiting = call('ZCARD', w)
    local front = call('HRANDFIELD', g, 1, 'WITHVALUES')[2] or
                  waiting > 0 and call('ZRANGE', w, 0, 0)[1]
    if front then
        local its, its_of = match(front, '^%S+ %S+ (%d) %d+ (%d+)')
        if its ~= mode and (not its or its > '1' or mode > '1') or its == mode and its_of ~= of then
            return nil, tonumber(its or 0), tonumber(its_of or 0)
        end
    end
    if mode == '4' then return waiting + 1 >= tonumber(of) end
    return waiting == 0 and fits(g, mode, take, of)
end

-- Before somebody has to wait, or is refused, the dead go.
local soon
local function place(name, mode, take, of)
    local fit, its, its_of = would(name, mode, take, of)
    if fit and mode ~= '4' then return fit end
    soon = soon or soonest(sid)
    local limit = soon ~= 0 and soon <= now and 100 or 8
    local found = purge(name, limit, mode == '4')
    if not found and call('HLEN', room .. ':g:' .. name) > 0 then return fit, its, its_of end
    repeat -- there may be more of them than that
        settle(name)
        fit, its, its_of = would(name, mode, take, of)
    until fit or not found or not purge(name, limit, mode == '4')
    tell_observers(name)
    return fit, its, its_of
end

local fit, busy = {}
for i = 1, asked do
    local at = 9 * i - 3
    local its, its_of
    fit[i], its, its_of = place(arg[at], arg[at + 3], arg[at + 4], arg[at + 5])
    if not fit[i] and spare <= 0 then return {tag, 7} end -- the dead are in the way still: asked again
    if its then return {tag, 3, its, its_of, i - 1} end
    if not fit[i] then busy = busy or i end
    -- What is written further down is looked at before: if it is of another type, nothing is left behind.
    if durable or arg[at + 6] ~= '0' or arg[at + 8] ~= '' then
        call('HLEN', room .. ':x:' .. arg[at])
        call('ZCARD', index_e)
    end
end
if busy and find(how, 't', 1, true) then
    name = arg[9 * busy - 3]
    local member, front = front_of(room .. ':g:' .. name, room .. ':w:' .. name)
    local its, _, _, _, _, flags = match(member or '', MEMBER)
    return {tag, 2, its and label_of(name, front, its, flags) or '', busy - 1}
end

if begins then
    call('ZADD', index_e, till, sid)
    if not alive then call('HSET', s, 'v', 0, 'l', arg[5]) end
    call('HSET', room, '\3' .. sid, till)
end

-- Armed holders hear that somebody waits.
local function tell_wanted(name)
    local list = call('HGETALL', room .. ':g:' .. name)
    for i = 1, #list, 2 do
        local its, _, _, _, _, flags, _, _, chan = match(list[i + 1], MEMBER)
        if its and find(flags, 'a', 1, true) and not over(name, list[i], its, flags) then
            push('W', name, list[i], its, flags, chan)
        end
    end
end

local function extras(name, text, least_ms, until_ms, value)
    local key = room .. ':x:' .. name
    if durable or least_ms ~= '0' then call('HSET', key, text .. 'l', arg[5]) end
    if least_ms ~= '0' then call('HSET', key, text .. 'a', least_ms) end
    if value ~= '' then call('HSET', key, text .. 'v', value) end
    if durable and until_ms ~= '0' and tonumber(until_ms) < FAR_MS then
        call('ZADD', index_e, now + until_ms * 1000, text .. ' ' .. name)
    end
end

for i = 1, asked do
    local at = 9 * i - 3
    name = arg[at]
    local g, w, text, state = room .. ':g:' .. name, room .. ':w:' .. name, format('%.0f', number + i - 1), 1
    local gathers = arg[at + 3] == '4'
    local first = call('ZCARD', w) == 0
    local granted = fit[i] and not gathers
    if granted then
        call('HSET', g, text, text == moment and arg[at + 2] or stamp(arg[at + 2]))
    else
        call('ZADD', w, text, arg[at + 2])
    end
    call('HSET', s, arg[at + 1], text)
    call('HSET', room, '\1', text, name, '')
    extras(name, text, arg[at + 6], arg[at + 7], arg[at + 8])
    if not granted and not (fit[i] and settle(name, text)) then
        state = first and 4 or 0
        waits = true
        if first then tell_wanted(name) end
    end
    reply[2 * i + 3], reply[2 * i + 4] = tonumber(text), state
    tell_observers(name)
end
if waits then reply[4] = soonest(sid) end
return reply
