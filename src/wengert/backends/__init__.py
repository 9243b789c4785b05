"""The devices: thin layers that run what the compiler or the runtime hands them."""
