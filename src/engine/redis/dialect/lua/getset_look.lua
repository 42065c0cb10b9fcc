-- Until when somebody holds, by the server's clock.
--@include open
--@include clock
local now = moment + 0
--@include say
local ends = redis.pcall('GET', arg[2])
if type(ends) == 'table' then
    show(call('TYPE', arg[2]).ok, 0, -1, -1, 1)
elseif ends and not match(ends, '^%d+$') then
    show(ends, 0, -1, -1, 1)
elseif ends and ends * 1000 >= now then
    show('until ' .. ends, ends, ends - now / 1000, 0, 1)
end
return reply
