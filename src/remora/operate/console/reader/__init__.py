"""How is the mirror read in a browser? On pages that are rendered here; scripts only add convenience."""
