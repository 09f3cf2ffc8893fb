"""What rocmwatch shows: metrics, JSON documents and a page, over HTTP. It reads what is published and nothing else."""
