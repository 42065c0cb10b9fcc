-- ARGV[3] "1": the message at ARGV[4] is acknowledged for group ARGV[2]; else it is anybody's again after a second.
local call, arg = redis.call, ARGV
if arg[3] == '1' then
    call('XACK', KEYS[1], arg[2], arg[4])
else
    call('XCLAIM', KEYS[1], arg[2], arg[5], 0, arg[4], 'IDLE', arg[6], 'JUSTID')
end
return {arg[1], 0}
