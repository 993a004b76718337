"""What a model needs on the GPU and on the host, computed from its files without reading a weight."""
