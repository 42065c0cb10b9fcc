-- Who has it here, and for how long.
local name, call = KEYS[1], redis.call
local kind = call('TYPE', name).ok
return {ARGV[1], 0, kind == 'string' and call('GET', name) or '', call('PTTL', name), kind}
