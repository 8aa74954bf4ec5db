"""Protocol cores and codecs. Pure: no sockets, no clocks."""
