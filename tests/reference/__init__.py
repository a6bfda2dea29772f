"""Times that another simulator gave, and the scripts that asked it."""
