"""What is peculiar to NVIDIA GPUs: memory that is shared with workers, clocks, the lease, the sandbox."""
