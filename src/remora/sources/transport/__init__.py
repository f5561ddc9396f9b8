"""How is a request sent, and what came back? The only package that opens outgoing connections."""
