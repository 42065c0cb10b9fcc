-- A ticket in its line: 0 waits, 1 granted, 2 granted and wanted; nil: it is not there. And how the line is folded.
local function find_ticket(name, number)
    local w, folded = room .. ':w:' .. name, call('HGET', room, name) or ''
    local its, holds = string.match(folded, '^[*+]?(%d+) (.+)$')
    local next = string.match(folded, '\n%d+ (%d+)')
    local member = its == number and holds or call('HGET', room .. ':g:' .. name, number)
    if member then
        local armed = string.find(string.match(member, '^%S+ %S+ %d %d+ %d+ (%S+)') or '', 'a')
        return armed and (next or call('ZCARD', w) > 0) and 2 or 1, folded
    end
    if next == number or call('ZCOUNT', w, number, number) > 0 then return 0, folded end
end
