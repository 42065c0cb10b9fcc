local now = tonumber(call('GET', KEYS[1] .. ':clock'))
