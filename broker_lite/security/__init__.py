"""Who somebody is and what they may do: arithmetic and tables, without sockets, files or clocks."""
