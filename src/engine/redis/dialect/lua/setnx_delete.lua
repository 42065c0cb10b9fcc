-- Whosever it is by now.
--@include open
return {tag, call('DEL', arg[2]) == 1 and 0 or 1}
