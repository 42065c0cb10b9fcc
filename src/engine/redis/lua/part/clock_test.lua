local moment = call('GET', KEYS[1] .. ':clock')
