-- A reader or the writer goes.
--@include open
--@include names
--@include readers
--@include rw_out
if not out(arg[2], arg[3]) then return {tag, 1} end
return tag
