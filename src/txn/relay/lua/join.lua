-- A group of a stream, from its beginning; both are made where they are missing. The reply has an error, or "", and then "+" if there
-- was no such stream.
local function create(...)
    local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[2], '0', ...)
    return type(made) == 'table' and made.err or ''
end
local err, new = create(), ''
if string.find(err, 'requires the key to exist', 1, true) then err, new = create('MKSTREAM'), '+' end
if string.sub(err, 1, 9) == 'BUSYGROUP' then err = '' end
-- Every connection is a consumer of its own, and Redis forgets none. Those that have nothing, and were not heard of for a minute, go;
-- one that lives is made again by what it asks next.
local list = err == '' and redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[2]) or {}
for _, one in ipairs(list) do
    local has = {}
    for i = 1, #one, 2 do has[one[i]] = one[i + 1] end
    if string.sub(has.name, 1, 5) == 'rota-' and has.pending == 0 and has.idle > 60000 then
        redis.pcall('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[2], has.name)
    end
end
return {ARGV[1], 0, err, new}
