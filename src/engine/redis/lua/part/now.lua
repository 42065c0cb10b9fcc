--@include clock
local now = moment + 0
