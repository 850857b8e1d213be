"""What is measured, a module for each subject: `TITLE`, and `run(bench)` that notes its figures."""
