-- `number`, as text: of the next ticket, LAST being that before it. The clock in us, or one more than LAST where
-- that is not less. Below 2^53 all of it is exact, here and in scores, which are doubles: so a clock after
-- the year 2255 counts as 9e15 us, and from there on numbers go on one by one.
local number, least = moment, (last or 0) + 1
if least > now or now > 9e15 then
    if least > 9007199254000000 then return redis.error_reply('ERR rota: no fence is left in this room') end
    number = string.format('%.0f', math.max(least, math.min(now, 9e15)))
end
