--@include clock
local now = tonumber(moment)
