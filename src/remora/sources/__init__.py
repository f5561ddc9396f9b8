"""Where do items come from? One module per provider, and the one module that opens connections."""
