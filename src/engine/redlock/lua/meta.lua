-- The greeting: what time it is here.
local now = redis.call('TIME')
return {ARGV[1], 0, now[1] * 1000000 + now[2]}
