-- A group of a stream, from its beginning; both are made where they are missing.
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[2], '0', 'MKSTREAM')
local err = type(made) == 'table' and made.err or ''
if string.sub(err, 1, 9) == 'BUSYGROUP' then err = '' end
return {ARGV[1], 0, err}
