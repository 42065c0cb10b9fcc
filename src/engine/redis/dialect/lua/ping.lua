--@include open
return tag
