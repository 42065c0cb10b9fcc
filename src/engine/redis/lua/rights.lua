-- Which commands the user may not do, of those that scripts and links need: for the doctor. What is
-- written here is gone when it ends; SELECT, WAIT and the like are found out by doing.
--@include head
local h, z = room .. ':x:\127rights', room .. ':w:\127rights'
local tries = {
    {'PING'}, {'ECHO', ''}, {'TIME'}, {'EXISTS', h}, {'HSET', h, 'a', '1'}, {'HSETNX', h, 'b', '1'},
    {'HINCRBY', h, 'b', '1'}, {'HEXISTS', h, 'a'}, {'HGET', h, 'a'}, {'HMGET', h, 'a'},
    {'HGETALL', h}, {'HKEYS', h}, {'HVALS', h}, {'HLEN', h}, {'HRANDFIELD', h}, {'HSCAN', h, '0'},
    {'HDEL', h, 'a'}, {'ZADD', z, '1', 'a'}, {'ZSCORE', z, 'a'}, {'ZCARD', z},
    {'ZCOUNT', z, '0', '1'}, {'ZRANGE', z, '0', '0'}, {'ZRANGEBYSCORE', z, '0', '1'},
    {'ZREM', z, 'a'}, {'ZPOPMIN', z}, {'HDEL', h, 'a', 'b'}, {'DEL', h, z},
}
local refused, keys = '', ''
for i = 1, #tries do
    local answer = redis.pcall(unpack(tries[i]))
    local text = type(answer) == 'table' and answer.err
    if text and (string.find(text, 'NOPERM', 1, true) or string.find(text, 'ACL failure', 1, true) or
                 string.find(text, 'executing the script can', 1, true)) then
        if string.find(text, ' keys', 1, true) then
            keys = ' ~rota:*' -- the command may be allowed: not to these
        else
            refused = refused .. ' +' .. string.lower(tries[i][1])
        end
    end
end
return {tag, 0, keys .. refused}
