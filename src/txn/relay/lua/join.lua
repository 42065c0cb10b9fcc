-- A group of a stream, from its beginning; both are made where they are missing. The reply has an error, or "", and then "+" if there
-- was no such stream.
local function create(...)
    local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[2], '0', ...)
    return type(made) == 'table' and made.err or ''
end
local err, new = create(), ''
if string.find(err, 'requires the key to exist', 1, true) then err, new = create('MKSTREAM'), '+' end
if string.sub(err, 1, 9) == 'BUSYGROUP' then err = '' end
return {ARGV[1], 0, err, new}
