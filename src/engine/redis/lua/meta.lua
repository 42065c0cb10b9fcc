-- Makes the layout's mark, or reads it.
local meta = redis.call('HMGET', KEYS[1], 'layout', 'rooms')
if not meta[1] or not meta[2] then
    redis.call('HSETNX', KEYS[1], 'layout', ARGV[2])
    redis.call('HSETNX', KEYS[1], 'rooms', ARGV[3])
    meta = redis.call('HMGET', KEYS[1], 'layout', 'rooms')
end
return {ARGV[1], 0, meta[1], meta[2]}
