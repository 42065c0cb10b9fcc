local watched = tonumber(call('ZSCORE', room, '\2') or 0)
