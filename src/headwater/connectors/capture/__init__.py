"""What captures of every database share: the life of a capture, where its transactions go, and chunks under windows."""
