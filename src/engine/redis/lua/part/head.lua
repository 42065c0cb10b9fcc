local room, arg, call = KEYS[1], ARGV, redis.call
local tag = arg[1]
