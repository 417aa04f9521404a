"""The tests; what each folder holds is said in CONTRIBUTING.md."""
