-- `number`: the fence of a grant now. One counter for all names of the database.
--@include clock
local now = moment + 0
local last = call('GET', 'rota:{f}')
--@include number
