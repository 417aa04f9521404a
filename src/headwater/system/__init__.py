"""What the machine gives, made safe to build on: databases whose every page has a checksum."""
