-- Which commands the user may not do, of those that scripts need: for the doctor. Its key may be none of the user's: that is no
-- right that is missing.
local h = 'rota:rights'
local tries = {
    {'SET', h, '', 'PX', '1000'}, {'GET', h}, {'TYPE', h}, {'PTTL', h}, {'PEXPIRE', h, '1000'}, {'DEL', h}, {'TIME'},
    {'SCAN', '0', 'COUNT', '1'},
}
local refused = ''
for i = 1, #tries do
    local answer = redis.pcall(unpack(tries[i]))
    local text = type(answer) == 'table' and answer.err or ''
    -- Of Redis 6, 7.0, 7.2 and later; of its keys they say "access".
    local right = string.find(text, 'NOPERM', 1, true) or string.find(text, 'ACL failure', 1, true) or
        string.find(text, 'executing the script can', 1, true)
    if right and string.find(text, ' run ', 1, true) then refused = refused .. ' +' .. string.lower(tries[i][1]) end
end
return {ARGV[1], 0, refused}
