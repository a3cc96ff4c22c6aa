"""The judge, and the workers that it watches. Import the files in here by name; nothing is loaded early."""
