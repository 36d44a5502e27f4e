"""Optimisation subject to constraints on measures, by solves of models without constraints."""
