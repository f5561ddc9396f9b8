"""How is Remora set up, started, watched and stopped? Everything that faces the operator lives here."""
