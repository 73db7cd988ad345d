"""The group coordinator: who reads which partition, and how far every group has come."""
