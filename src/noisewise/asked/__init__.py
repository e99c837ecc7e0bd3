"""What a person types, on the command line or in the studio, read into values."""
