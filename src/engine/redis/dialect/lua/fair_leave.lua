-- Who holds goes and the next is told, or who waits stands there no more.
--@include open
--@include clock
local now = moment + 0
--@include names
--@include queue
local name, id = arg[2], arg[3]
local info = 'rota:i:' .. name
local held = call('TYPE', name).ok == 'hash' and call('HDEL', name, id) == 1
local number = match(call('HGET', info, id) or '', '^%d+')
local waited = not held and unqueue(name, id)
if not held and not waited then return {tag, 1} end
call('HDEL', info, id)
if waited and number then call('HDEL', session_of(id), number .. ' ' .. name) end
if held then call('DEL', name) end
if call('EXISTS', name) == 0 then tell_next(name) end
return {tag, 0, held and 1 or 0}
