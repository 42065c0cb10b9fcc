-- `moment`: now in us, as text without zeros before it. It has 16 digits from 2001 to 2286, and a clock may be
-- anywhere: times are compared as numbers (`now`), never as text.
local clock = call('TIME')
local moment = clock[2]
if clock[1] ~= '0' then
    if #moment < 6 then moment = string.sub('00000', #moment) .. moment end
    moment = clock[1] .. moment
end
