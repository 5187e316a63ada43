"""Exclusive, NUMA-local CPU cores for LLM model servers on Kubernetes."""
