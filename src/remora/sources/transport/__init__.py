"""How does a request leave, and what came back? The only room that opens outgoing connections."""
