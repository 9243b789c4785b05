"""What many ranks do, in one process: the lesson `wengert learn distributed`, a section a module."""
