local arg, call, match = ARGV, redis.call, string.match
local tag = arg[1]
