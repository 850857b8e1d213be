"""Transactions as pure decisions."""
