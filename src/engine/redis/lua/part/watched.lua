local watched = tonumber(call('HGET', room, '\2') or 0)
