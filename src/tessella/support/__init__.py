"""Utilities of all layers: JSON, progress, text formatting, rewards and costs."""
