"""The batch format: look at it, check it, build it, inflate it. No waiting, no files, no clock in here."""
