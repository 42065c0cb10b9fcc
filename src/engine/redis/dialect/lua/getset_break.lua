-- Deleted if it has this time.
--@include open
if redis.pcall('GET', arg[2]) ~= arg[3] then return {tag, 1} end
call('DEL', arg[2])
return {tag, 0, 1}
