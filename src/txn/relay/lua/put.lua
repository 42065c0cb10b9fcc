-- Adds messages to their streams. ARGV[2]: for how long, in ms, an id that was added is not added again; 0: it is. Then five for each:
-- stream, id, key, type (behind a "+", or "" for none), body. The reply has one for each: "" is added, else why not.
local call, arg = redis.pcall, ARGV
local reply = {arg[1], 0}
for i = 3, #arg, 5 do
    local seen = 'rota:e:' .. arg[i + 1]
    local err = arg[i] == '' and 'it has no topic: a stream needs a name' or nil
    local fresh = not err and (arg[2] == '0' or call('SET', seen, '', 'NX', 'PX', arg[2]))
    err = err or type(fresh) == 'table' and fresh.err or nil
    if fresh and not err then
        local fields = {'id', arg[i + 1], 'body', arg[i + 4]}
        if arg[i + 2] ~= '' then
            fields[#fields + 1] = 'key'
            fields[#fields + 1] = string.sub(arg[i + 2], 2)
        end
        if arg[i + 3] ~= '' then
            fields[#fields + 1] = 'type'
            fields[#fields + 1] = string.sub(arg[i + 3], 2)
        end
        local added = call('XADD', arg[i], '*', unpack(fields))
        err = type(added) == 'table' and added.err or nil
        if err and arg[2] ~= '0' then call('DEL', seen) end
    end
    reply[#reply + 1] = err or ''
end
return reply
