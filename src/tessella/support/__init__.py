"""What every layer shares, each once: JSON, progress, printed text, rewards and costs."""
