-- ARGV[3] "ack": the message at ARGV[4] is acknowledged for group ARGV[2]. "idle": consumer ARGV[5], if it has it still, has not
-- touched it for ARGV[6] ms: 0 keeps it, more makes it anybody's soon.
local call, arg = redis.call, ARGV
if arg[3] == 'ack' then
    call('XACK', KEYS[1], arg[2], arg[4])
else
    local has = call('XPENDING', KEYS[1], arg[2], arg[4], arg[4], 1)[1]
    if has and has[2] == arg[5] then
        call('XCLAIM', KEYS[1], arg[2], arg[5], 0, arg[4], 'IDLE', arg[6], 'JUSTID')
    end
end
return {arg[1], 0}
