"""What does a browser see? The HTTP server and its static files."""
