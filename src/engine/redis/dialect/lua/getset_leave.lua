-- Deleted if it has not ended by our clock: then it is believed to be ours.
--@include open
local ends = redis.pcall('GET', arg[2])
if type(ends) ~= 'string' or not match(ends, '^%d+$') or ends + 0 < arg[3] + 0 then return {tag, 1} end
call('DEL', arg[2])
return tag
