-- `moment`: now in us, as text of 16 digits, which compare as numbers do.
local clock = call('TIME')
local moment = clock[2]
if #moment < 6 then moment = string.sub('00000', #moment) .. moment end
moment = clock[1] .. moment
